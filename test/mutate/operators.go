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

// change returns the name of the change in equivalent.txt.
func (m mutant) change() string {
	if m.new == "" {
		return "deleted"
	}
	return m.old + " to " + m.new
}

// swaps lists the operators that replace each operator: the first is the negation or the opposite, the second moves a
// bound by one.
var swaps = map[string][]string{
	"==": {"!="}, "!=": {"=="}, "<": {">=", "<="}, "<=": {">", "<"}, ">": {"<=", ">="}, ">=": {"<", ">"},
	"&&": {"||"}, "||": {"&&"}, "+": {"-"}, "-": {"+"}, "*": {"/"}, "/": {"*"}, "%": {"*"},
	"&": {"|"}, "|": {"&"}, "^": {"&"}, "&^": {"&"}, "<<": {">>"}, ">>": {"<<"},
	"+=": {"-="}, "-=": {"+="}, "*=": {"/="}, "/=": {"*="}, "|=": {"&="}, "&=": {"|="}, "^=": {"&="},
	"<<=": {">>="}, ">>=": {"<<="}, "++": {"--"}, "--": {"++"},
	"true": {"false"}, "false": {"true"}, "min": {"max"}, "max": {"min"},
	"~=": {"=="}, "and": {"or"}, "or": {"and"}, "floor": {"ceil"}, "ceil": {"floor"}, // Lua
}

// goFile holds the mutants that goMutants collects in a file.
type goFile struct {
	name, text string
	lines      []string
	files      *token.FileSet
	all        []mutant
}

// goMutants makes every change of a file that the rules know. Some do not compile.
func goMutants(name, text string) ([]mutant, error) {
	f := &goFile{name: name, text: text, lines: strings.Split(text, "\n"), files: token.NewFileSet()}
	tree, err := parser.ParseFile(f.files, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	skip := map[ast.Node]bool{}
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ForStmt:
			skip[n.Post] = n.Post != nil // a loop without its step never ends
		case *ast.CallExpr: // a capacity changes no result
			made, ok := n.Fun.(*ast.Ident)
			skip[n] = ok && made.Name == "make"
		case *ast.GenDecl:
			skip[n] = n.Tok == token.IMPORT
		case *ast.Field:
			skip[n] = n.Tag != nil
		}
		if skip[n] {
			return false
		}
		f.expression(n)
		f.statement(n)
		return true
	})
	return f.all, nil
}

// add adds a change for each of the texts that replace the text between from and to.
func (f *goFile) add(from, to token.Pos, news ...string) {
	at, end := f.files.Position(from), f.files.Position(to)
	for _, n := range news {
		f.all = append(f.all, mutant{f.name, at.Line, at.Offset, end.Offset, f.text[at.Offset:end.Offset], n,
			strings.TrimSpace(f.lines[at.Line-1])})
	}
}

func (f *goFile) swap(at token.Pos, op string) { f.add(at, at+token.Pos(len(op)), swaps[op]...) }

func (f *goFile) expression(n ast.Node) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		f.swap(n.OpPos, n.Op.String())
	case *ast.UnaryExpr:
		if n.Op == token.NOT || n.Op == token.SUB {
			f.add(n.OpPos, n.OpPos+1, " ")
		}
	case *ast.Ident:
		if n.Name == "true" || n.Name == "false" {
			f.swap(n.Pos(), n.Name)
		}
	case *ast.BasicLit:
		if n.Kind == token.INT {
			f.add(n.Pos(), n.End(), besides(n.Value)...)
		}
	case *ast.CallExpr:
		if fn, ok := n.Fun.(*ast.Ident); ok && (fn.Name == "min" || fn.Name == "max") {
			f.swap(fn.Pos(), fn.Name)
		}
	}
}

func (f *goFile) statement(n ast.Node) {
	switch n := n.(type) {
	case *ast.IncDecStmt:
		f.swap(n.TokPos, n.Tok.String())
	case *ast.AssignStmt:
		f.swap(n.TokPos, n.Tok.String())
		if n.Tok != token.DEFINE {
			f.add(n.Pos(), n.End(), "")
		}
	case *ast.ExprStmt, *ast.BranchStmt, *ast.DeferStmt:
		f.add(n.Pos(), n.End(), "")
	case *ast.ReturnStmt:
		if n.Results == nil {
			f.add(n.Pos(), n.End(), "")
		}
	}
}

// besides returns the numbers next to a literal.
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
	// luaStatement is a whole statement in one line that can be deleted.
	luaStatement = regexp.MustCompile(`^\s*(?:redis\.\w+\(.*\)|[\w.\[\]']+(?:, [\w.\[\]']+)* = ` +
		`.*[\w)\]}'"]|return)\s*$`)
)

// closed reports whether a line closes each bracket that it opens.
func closed(code, opens, closes string) bool {
	return strings.Count(code, opens) == strings.Count(code, closes)
}

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
		if luaStatement.MatchString(code) && !luaGoesOn.MatchString(code) && closed(code, "(", ")") &&
			closed(code, "{", "}") {
			add(0, len(code), "")
		}
		for _, at := range luaToken.FindAllStringIndex(line, -1) {
			switch word := line[at[0]:at[1]]; {
			case strings.HasPrefix(word, "--"): // a comment
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
