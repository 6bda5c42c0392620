package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// mutant is one small change that a rule makes, not a person.
type mutant struct {
	file       string // from the root of the repository
	line       int
	begin, end int    // bytes of the file that new replaces
	old, new   string // new is "" where a statement is deleted
	text       string // of the line, without space around it
}

// change is what equivalent.txt calls it.
func (m mutant) change() string {
	if m.new == "" {
		return "deleted"
	}
	return m.old + " to " + m.new
}

// swaps are the operators that take each other's place: the first is the negation or
// the opposite, the second moves a bound by one.
var swaps = map[string][]string{
	"==": {"!="}, "!=": {"=="}, "<": {">=", "<="}, "<=": {">", "<"}, ">": {"<=", ">="}, ">=": {"<", ">"},
	"&&": {"||"}, "||": {"&&"}, "+": {"-"}, "-": {"+"}, "*": {"/"}, "/": {"*"}, "%": {"*"},
	"&": {"|"}, "|": {"&"}, "^": {"&"}, "&^": {"&"}, "<<": {">>"}, ">>": {"<<"},
	"+=": {"-="}, "-=": {"+="}, "*=": {"/="}, "/=": {"*="}, "|=": {"&="}, "&=": {"|="}, "^=": {"&="},
	"<<=": {">>="}, ">>=": {"<<="}, "++": {"--"}, "--": {"++"},
	"true": {"false"}, "false": {"true"}, "min": {"max"}, "max": {"min"},
	"~=": {"=="}, "and": {"or"}, "or": {"and"}, "floor": {"ceil"}, "ceil": {"floor"}, // Lua
}

// goMutants makes every change of a file that the rules know. Some do not compile.
func goMutants(name, text string) ([]mutant, error) {
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(text, "\n")
	var all []mutant
	add := func(from, to token.Pos, news ...string) {
		at, end := files.Position(from), files.Position(to)
		for _, n := range news {
			all = append(all, mutant{name, at.Line, at.Offset, end.Offset, text[at.Offset:end.Offset], n,
				strings.TrimSpace(lines[at.Line-1])})
		}
	}
	swap := func(at token.Pos, op string) { add(at, at+token.Pos(len(op)), swaps[op]...) }
	posts := map[ast.Node]bool{} // a loop without its step never ends
	ast.Inspect(tree, func(n ast.Node) bool {
		if posts[n] {
			return false
		}
		switch n := n.(type) {
		case *ast.ForStmt:
			posts[n.Post] = n.Post != nil
		case *ast.BinaryExpr:
			swap(n.OpPos, n.Op.String())
		case *ast.UnaryExpr:
			if n.Op == token.NOT || n.Op == token.SUB {
				add(n.OpPos, n.OpPos+1, " ")
			}
		case *ast.Ident:
			if n.Name == "true" || n.Name == "false" {
				swap(n.Pos(), n.Name)
			}
		case *ast.BasicLit:
			if n.Kind == token.INT {
				add(n.Pos(), n.End(), besides(n.Value)...)
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok && (f.Name == "min" || f.Name == "max") {
				swap(f.Pos(), f.Name)
			} else if ok && f.Name == "make" {
				return false // a capacity changes no result
			}
		case *ast.IncDecStmt:
			swap(n.TokPos, n.Tok.String())
		case *ast.AssignStmt:
			swap(n.TokPos, n.Tok.String())
			if n.Tok != token.DEFINE {
				add(n.Pos(), n.End(), "")
			}
		case *ast.ExprStmt, *ast.BranchStmt, *ast.DeferStmt:
			add(n.Pos(), n.End(), "")
		case *ast.ReturnStmt:
			if n.Results == nil {
				add(n.Pos(), n.End(), "")
			}
		case *ast.GenDecl:
			return n.Tok != token.IMPORT
		case *ast.Field:
			return n.Tag == nil
		}
		return true
	})
	return all, nil
}

// besides gives the numbers beside a literal.
func besides(literal string) []string {
	n, err := strconv.ParseInt(literal, 0, 62)
	switch {
	case err != nil:
		return nil
	case n == 0:
		return []string{"1"}
	}
	return []string{fmt.Sprint(n + 1), fmt.Sprint(n - 1)}
}

var (
	luaToken  = regexp.MustCompile(`"[^"]*"|'[^']*'|--.*|[A-Za-z_]\w*|\d+(?:\.\d+)?|[<>=~]=|\.\.|[-+*/%<>]`)
	luaGoesOn = regexp.MustCompile(`(?:\b(?:and|or|not|then|do)|function.*)\s*$`)
	// luaStatement is a whole statement in one line that may be missing.
	luaStatement = regexp.MustCompile(`^\s*(?:redis\.\w+\(.*\)|[\w.\[\]']+(?:, [\w.\[\]']+)* = .*[\w)\]}'"]|return)\s*$`)
)

// luaMutants makes every change of a script that the rules know.
func luaMutants(name, text string) []mutant {
	var all []mutant
	offset := 0
	for i, line := range strings.SplitAfter(text, "\n") {
		add := func(begin, end int, news ...string) {
			for _, n := range news {
				all = append(all, mutant{name, i + 1, offset + begin, offset + end, line[begin:end], n,
					strings.TrimSpace(line)})
			}
		}
		code, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " --")
		if luaStatement.MatchString(code) && !luaGoesOn.MatchString(code) && strings.Count(code, "(") == strings.Count(code, ")") &&
			strings.Count(code, "{") == strings.Count(code, "}") {
			add(0, len(code), "")
		}
		for _, at := range luaToken.FindAllStringIndex(line, -1) {
			switch word := line[at[0]:at[1]]; {
			case word == "not":
				add(at[0], at[1], " ")
			case word == "==":
				add(at[0], at[1], "~=")
			case word[0] >= '0' && word[0] <= '9':
				add(at[0], at[1], besides(word)...)
			default:
				add(at[0], at[1], swaps[word]...)
			}
		}
		offset += len(line)
	}
	return all
}
