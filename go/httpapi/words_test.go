package httpapi

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// No error of the server names a flag in a program without flags. The keys of the table are what the server says.
func TestFlagsAreOptions(t *testing.T) {
	flag := regexp.MustCompile(`(?:^|[\s("])--[a-z][a-z-]+`)
	found := map[string]bool{}
	err := filepath.WalkDir("../server", func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || elsewhere(filepath.ToSlash(path)) {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if s, ok := n.Fun.(*ast.SelectorExpr); ok {
					if p, ok := s.X.(*ast.Ident); ok && p.Name == "field" { // described in the OpenAPI document
						return false
					}
				}
			case *ast.BinaryExpr, *ast.BasicLit:
				text := joined(n.(ast.Expr))
				if strings.Contains(text, "in the folder of --lora-dir") { // a Handler has none
					return false
				}
				for _, name := range flag.FindAllString(inOptions.Replace(text), -1) {
					t.Errorf("%s: %q names %s, which is no option", path, text, name)
				}
				for _, name := range flag.FindAllString(text, -1) {
					found[name] = true
				}
				return false
			}
			return true
		})
		return nil
	})
	if err != nil || len(found) < 5 {
		t.Errorf("only the flags %v were found: %v", found, err)
	}
}

// elsewhere reports whether a package says nothing to who uses a Handler: the address and the origins of the program quern,
// its downloads, and tests.
func elsewhere(path string) bool {
	for _, dir := range []string{"/host/", "/catalog/", "/guard/", "/internal/"} {
		if strings.Contains(path, dir) {
			return true
		}
	}
	return false
}

// joined is a text that is put together of several.
func joined(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		return joined(e.X) + joined(e.Y)
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil {
			return text
		}
	}
	return ""
}
