// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

const (
	tableModule    = "conformance/tables"
	adapterPackage = "github.com/volcano-prebind/volcano-prebind/test/conformance/adapter"
	helperPackage  = volcanoModule + "/pkg/scheduler/uthelper"
)

// rewrite makes a test file open its sessions by the adapter:
//
//   - the helper of the tables is replaced by the copy beside them;
//   - OpenSession and CloseSession of the framework, an action's Execute and a cache's Run are replaced by the
//     adapter's;
//   - transactions are sealed after the helper has run the actions;
//   - a loop over cases without t.Run gets one around each case, so that each has a verdict.
func rewrite(name string, src []byte) ([]byte, error) {
	r := &rewriter{fset: token.NewFileSet(), src: src}
	file, err := parser.ParseFile(r.fset, name, src, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	for _, imp := range file.Imports {
		if imp.Path.Value == `"`+helperPackage+`"` {
			r.replace(imp.Path, `"`+tableModule+`/uthelper"`)
		}
	}
	for _, decl := range file.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Body != nil {
			r.function(file.Name.Name, fn)
		}
	}
	if r.adapter {
		r.insert(file.Name.End(), "\n\nimport \""+adapterPackage+"\"\n")
	}
	if r.framework {
		// The import may have no other use left.
		r.insert(file.End(), "\nvar _ framework.Plugin\n")
	}
	if r.loops > 0 {
		r.insert(file.Name.End(), "\n\nimport conformancefmt \"fmt\"\n")
	}
	return r.text(), nil
}

type rewriter struct {
	fset  *token.FileSet
	src   []byte
	edits []edit
	loops int
	// adapter reports whether the file uses the adapter, and framework whether it used the framework.
	adapter, framework bool
}

// edit replaces the text between two offsets.
type edit struct {
	from, to int
	text     string
}

func (r *rewriter) function(pkg string, fn *ast.FuncDecl) {
	r.calls(fn.Body)
	if pkg == "uthelper" && fn.Name.Name == "Run" {
		r.insert(fn.Body.Rbrace, "\tadapter.Seal(test.ssn)\n")
	}
	if !strings.HasPrefix(fn.Name.Name, "Test") || fn.Recv != nil {
		return
	}
	for _, stmt := range fn.Body.List {
		if loop, ok := stmt.(*ast.RangeStmt); ok && isCases(loop.Body) {
			r.name(loop)
		}
	}
}

// calls replaces the calls that the adapter implements.
func (r *rewriter) calls(body ast.Node) {
	ast.Inspect(body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		selector, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		on, _ := selector.X.(*ast.Ident)
		switch name := selector.Sel.Name; {
		case on != nil && on.Name == "framework" && (name == "OpenSession" || name == "CloseSession"):
			r.replace(selector.X, "adapter")
			r.adapter, r.framework = true, true
		case name == "Execute" && len(call.Args) == 1:
			r.replace(call, fmt.Sprintf("adapter.Execute(%s, %s)", r.of(selector.X), r.of(call.Args[0])))
			r.adapter = true
		case on != nil && on.Name == "schedulerCache" && name == "Run":
			r.replace(call, fmt.Sprintf("adapter.Run(%s, %s)", on.Name, r.of(call.Args[0])))
			r.adapter = true
		}
		return true
	})
}

// isCases reports whether the body is that of a loop over cases that open sessions and have no t.Run. A body that
// returns ends the test, so it does not count.
func isCases(body ast.Node) bool {
	opens, runs, returns := false, false, false
	ast.Inspect(body, func(n ast.Node) bool {
		if selector, ok := n.(*ast.SelectorExpr); ok {
			on, _ := selector.X.(*ast.Ident)
			opens = opens || selector.Sel.Name == "RegisterSession" || selector.Sel.Name == "OpenSession"
			runs = runs || selector.Sel.Name == "Run" && on != nil && on.Name == "t"
		}
		return true
	})
	ast.Inspect(body, func(n ast.Node) bool {
		if _, ok := n.(*ast.FuncLit); ok {
			return false
		}
		_, ok := n.(*ast.ReturnStmt)
		returns = returns || ok
		return true
	})
	return opens && !runs && !returns
}

// name wraps the body of a loop in a t.Run that is named by its number.
func (r *rewriter) name(loop *ast.RangeStmt) {
	r.loops++
	counter := fmt.Sprintf("conformanceCase%d", r.loops)
	r.insert(loop.Pos(), counter+" := -1\n")
	r.insert(loop.Body.Lbrace+1, fmt.Sprintf("\n%s++\nt.Run(conformancefmt.Sprintf(\"case %%d\", %s), func(t *testing.T) {", counter, counter))
	r.insert(loop.Body.Rbrace, "})\n")
	// A continue of the loop ends the case.
	ast.Inspect(loop.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.RangeStmt, *ast.ForStmt, *ast.FuncLit:
			return false
		case *ast.BranchStmt:
			if n.Tok == token.CONTINUE {
				r.replace(n, "return")
			}
		}
		return true
	})
}

func (r *rewriter) offset(pos token.Pos) int { return r.fset.Position(pos).Offset }

func (r *rewriter) of(n ast.Node) string { return string(r.src[r.offset(n.Pos()):r.offset(n.End())]) }

func (r *rewriter) replace(n ast.Node, text string) {
	r.edits = append(r.edits, edit{r.offset(n.Pos()), r.offset(n.End()), text})
}

func (r *rewriter) insert(pos token.Pos, text string) {
	r.edits = append(r.edits, edit{r.offset(pos), r.offset(pos), text})
}

func (r *rewriter) text() []byte {
	slices.SortStableFunc(r.edits, func(a, b edit) int { return a.from - b.from })
	var out []byte
	last := 0
	for _, e := range r.edits {
		out = append(out, r.src[last:e.from]...)
		out = append(out, e.text...)
		last = e.to
	}
	return append(out, r.src[last:]...)
}
