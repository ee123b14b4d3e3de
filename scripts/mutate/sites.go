package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// swaps are operators and what each becomes.
var swaps = map[token.Token]string{
	token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">", token.EQL: "!=", token.NEQ: "==",
	token.ADD: "-", token.SUB: "+", token.MUL: "+", token.QUO: "*", token.REM: "/",
	token.LAND: "||", token.LOR: "&&", token.AND: "|", token.OR: "&", token.SHL: ">>", token.SHR: "<<",
}

// goSites returns the places of a Go file where it can be broken.
func goSites(pkg, file string) ([]mutant, error) {
	src, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, src, 0)
	if err != nil {
		return nil, err
	}
	var all []mutant
	// Profiles count statements where they begin, and not what follows a function within one. The expressions of a case
	// are evaluated where its switch is reached; profiles count only what follows the colon.
	type span struct {
		from, to token.Pos
		of       int
	}
	var statements []span // those within others later
	var cases []span
	var labels []token.Pos
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SwitchStmt); ok {
			for _, c := range s.Body.List {
				cases = append(cases, span{c.Pos(), c.(*ast.CaseClause).Colon, fset.Position(s.Pos()).Line})
			}
		}
		switch n := n.(type) {
		case *ast.LabeledStmt:
			labels = append(labels, n.Pos())
		case *ast.BlockStmt, *ast.CaseClause, *ast.CommClause:
		case ast.Stmt:
			statements = append(statements, span{n.Pos(), n.End(), fset.Position(n.Pos()).Line})
		}
		return true
	})
	spans := append(statements, cases...)
	add := func(from, to token.Pos, text string) {
		a, b := fset.Position(from), fset.Position(to)
		reach := a.Line
		for _, s := range spans {
			if s.from <= from && from < s.to {
				reach = s.of
			}
		}
		m := mutant{pkg: pkg, file: file, line: a.Line, reach: reach, from: a.Offset, to: b.Offset, old: string(src[a.Offset:b.Offset]), new: text}
		for _, d := range f.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil && d.Body.Lbrace < from && to <= d.Body.Rbrace {
				m.inside, m.void = true, d.Type.Results.NumFields() == 0
				m.shares = !slices.ContainsFunc(labels, func(p token.Pos) bool { return d.Body.Lbrace < p && p < d.Body.Rbrace })
				m.body = [2]int{fset.Position(d.Body.Lbrace).Offset, fset.Position(d.Body.Rbrace).Offset}
			}
		}
		all = append(all, m)
	}
	text := func(n ast.Node) string {
		return string(src[fset.Position(n.Pos()).Offset:fset.Position(n.End()).Offset])
	}
	isText := func(e ast.Expr) bool { l, ok := e.(*ast.BasicLit); return ok && l.Kind == token.STRING }
	var visit func(ast.Node) bool
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if to, ok := swaps[n.Op]; ok && !isText(n.X) && !isText(n.Y) {
				add(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), to)
			}
		case *ast.BasicLit:
			if v, err := strconv.ParseInt(n.Value, 0, 32); n.Kind == token.INT && err == nil {
				add(n.Pos(), n.End(), strconv.FormatInt(v+1, 10))
			}
		case *ast.IncDecStmt:
			to := "--"
			if n.Tok == token.DEC {
				to = "++"
			}
			add(n.TokPos, n.TokPos+2, to)
		case *ast.IfStmt:
			if leaves(n.Body) && n.Else == nil {
				add(n.Cond.Pos(), n.Cond.End(), "("+text(n.Cond)+") && false")
			}
		case *ast.ReturnStmt:
			if k := len(n.Results); k > 1 {
				if last, ok := n.Results[k-1].(*ast.Ident); !ok || last.Name != "nil" && last.Name != "true" {
					// What is returned beside an error means nothing: only the error is looked into.
					ast.Inspect(n.Results[k-1], visit)
					return false
				}
			}
			for _, r := range n.Results {
				if id, ok := r.(*ast.Ident); ok && id.Name == "true" {
					add(id.Pos(), id.End(), "false")
				} else if ok && id.Name == "false" {
					add(id.Pos(), id.End(), "true")
				}
			}
		case *ast.ExprStmt:
			if _, ok := n.X.(*ast.CallExpr); ok {
				add(n.Pos(), n.End(), "")
			}
		case *ast.CallExpr:
			if id, ok := n.Fun.(*ast.Ident); ok && id.Name == "min" {
				add(id.Pos(), id.End(), "max")
			} else if ok && id.Name == "max" {
				add(id.Pos(), id.End(), "min")
			} else if ok && id.Name == "panic" {
				return false
			}
		case *ast.ImportSpec, *ast.Field:
			return false
		}
		return true
	}
	ast.Inspect(f, visit)
	return all, nil
}

// leaves reports whether a block ends what surrounds it early.
func leaves(b *ast.BlockStmt) bool {
	if len(b.List) == 0 {
		return false
	}
	switch b.List[len(b.List)-1].(type) {
	case *ast.ReturnStmt, *ast.BranchStmt:
		return true
	}
	return false
}

// In C only what stands inside of a function, which is indented, is changed.
var (
	cOperator = regexp.MustCompile(` (<=?|>=?|==|!=|\+|-|\*|/|%|&&|\|\||&|\||<<|>>|\+=|-=|\*=) `)
	cNumber   = regexp.MustCompile(`[\[(= <>+*-](\d+)[\]); ,]`)
	cSwaps    = map[string]string{
		"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "+": "-", "-": "+", "*": "+", "/": "*", "%": "/",
		"&&": "||", "||": "&&", "&": "|", "|": "&", "<<": ">>", ">>": "<<", "+=": "-=", "-=": "+=", "*=": "+=",
	}
)

// cSites returns the places of a C file where it can be broken.
func cSites(pkg, file string) ([]mutant, error) {
	src, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all []mutant
	at := 0
	for i, line := range strings.SplitAfter(string(src), "\n") {
		code, _, _ := strings.Cut(line, "//")
		begun := strings.TrimSpace(code)
		if strings.HasPrefix(line, "\t") && !strings.HasPrefix(begun, "*") && !strings.HasPrefix(begun, "/*") && !strings.HasSuffix(begun, "*/") {
			for _, m := range cOperator.FindAllStringSubmatchIndex(code, -1) {
				op := code[m[2]:m[3]]
				all = append(all, mutant{pkg: pkg, file: file, line: i + 1, reach: i + 1, from: at + m[2], to: at + m[3], old: op, new: cSwaps[op]})
			}
			for _, m := range cNumber.FindAllStringSubmatchIndex(code, -1) {
				if v, err := strconv.Atoi(code[m[2]:m[3]]); err == nil {
					all = append(all, mutant{pkg: pkg, file: file, line: i + 1, reach: i + 1, from: at + m[2], to: at + m[3], old: code[m[2]:m[3]], new: strconv.Itoa(v + 1)})
				}
			}
		}
		at += len(line)
	}
	return all, nil
}
