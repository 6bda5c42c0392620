package web

import (
	"math"
	"net/http"
	"strings"
)

// maxFind is the maximum number of bytes of a text to find.
const maxFind = 1000

// QueryOffset reads the number of elements of a list that are left out in front.
func QueryOffset(r *http.Request) (int, error) {
	if r.URL.Query().Get("offset") == "0" {
		return 0, nil
	}
	return QueryInt(r, "offset", 0, math.MaxInt32)
}

// QueryFind reads the text that elements of a list have to contain, in lower case.
func QueryFind(r *http.Request) (string, error) {
	find := strings.ToLower(r.URL.Query().Get("find"))
	if len(find) > maxFind {
		return "", BadField("find", "find is longer than 1000 bytes", "give a part of a name")
	}
	return find, nil
}
