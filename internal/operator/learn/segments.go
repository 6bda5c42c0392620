package learn

import (
	"path"
	"strings"
)

// segmentsOf splits a path. The last segment of one that ends with a slash is
// end. It returns false for paths that a pattern cannot express.
func segmentsOf(target string) ([]string, bool) {
	if target == "" || target[0] != '/' {
		return nil, false
	}
	s := strings.Split(target[1:], "/")
	if len(s) > maxDepth {
		return nil, false
	}
	for i, seg := range s {
		switch {
		case seg == "" && i == len(s)-1:
			s[i] = end
		case seg == "", seg == ".", seg == "..", seg == end:
			return nil, false
		}
	}
	return s, true
}

// isValue reports whether a segment looks like a value: a number, a uuid, a hash, a
// long text, or anything with a byte that a pattern cannot contain literally.
func isValue(s string) bool {
	digits, hex := 0, 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !isPlain(c) {
			return true
		}
		if c >= '0' && c <= '9' {
			digits++
		}
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' || c == '-' {
			hex++
		}
	}
	isHash := hex == len(s) && len(s) >= 8 && digits > 0
	return digits == len(s) || len(s) > 40 || isHash || len(s) >= 6 && 2*digits >= len(s)
}

// isPlain reports whether a byte is literal, without escape, in a path, a pattern and YAML.
func isPlain(c byte) bool {
	switch {
	case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '-', c == '_', c == '.', c == '~':
		return true
	}
	return false
}

// isName reports whether a rule can contain a decoded name of a parameter: it is plain,
// and is not one of the names that are special in rules.
func isName(name string) bool {
	if name == "" || len(name) > 64 || strings.HasPrefix(name, "path.") || strings.HasPrefix(name, "header.") {
		return false
	}
	for i := 0; i < len(name); i++ {
		if c := name[i]; !isPlain(c) && c != '[' && c != ']' && c != ':' && c != '$' {
			return false
		}
	}
	return true
}

// assetTypes are endings of files that pages load by themselves.
var assetTypes = map[string]bool{
	".css": true, ".js": true, ".mjs": true, ".map": true, ".png": true, ".jpg": true, ".jpeg": true, ".gif": true,
	".svg": true, ".ico": true, ".webp": true, ".avif": true, ".woff": true, ".woff2": true, ".ttf": true, ".eot": true,
}

func isAsset(target string) bool {
	end := path.Ext(target)
	return len(end) <= 6 && assetTypes[strings.ToLower(end)]
}
