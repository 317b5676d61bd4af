// SPDX-License-Identifier: Apache-2.0

// Command typesize checks that no type of this project has more than 40 methods or 20 fields. It counts the methods on T
// and *T, or of an interface, and the fields of a struct, with those promoted from embedded types. Test files count, too,
// also the methods that they add to types of production code. Generated code does not count, and neither do methods and
// fields promoted from other modules: an embedded type of upstream is one field.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// size is how many methods and fields a type has, or may have.
type size struct{ methods, fields int }

// limit is the size that a type may have.
var limit = size{methods: 40, fields: 20}

// module is the path of this module.
const module = "github.com/volcano-prebind/volcano-prebind/"

// declaration holds the names that a type declares. embedded are the embedded types, as keys of declarations.
type declaration struct {
	methods, fields map[string]bool
	embedded        []string
}

// declarations are the types by "directory.Type", or "directory_test.Type" for a package of tests beside the package.
type declarations map[string]*declaration

func main() {
	types := declarations{}
	for _, root := range []string{"pkg", "cmd", "internal", "test", "hack", "docs"} {
		if err := types.read(root); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	if wrong := check(types.sizes()); len(wrong) > 0 {
		fmt.Fprintln(os.Stderr, strings.Join(wrong, "\n"))
		os.Exit(1)
	}
}

// read adds the types in the Go files under the directory.
func (d declarations) read(root string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("reading %s: %w", path, err)
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		if strings.HasSuffix(file.Name.Name, "_test") { // a package of its own in the directory of the package that it tests
			dir += "_test"
		}
		if !ast.IsGenerated(file) {
			d.readFile(dir, file)
		}
		return nil
	})
}

func (d declarations) readFile(dir string, file *ast.File) {
	packages := map[string]string{"": dir} // the directories of imported packages of this module, by the names that the file uses
	for _, spec := range file.Imports {
		path, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module)
		name := filepath.Base(path)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if ours {
			packages[name] = path
		}
	}
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv != nil && len(decl.Recv.List) > 0 {
				_, name := nameOf(decl.Recv.List[0].Type)
				d.of(dir + "." + name).methods[decl.Name.Name] = true
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				if t, ok := spec.(*ast.TypeSpec); ok {
					d.of(dir+"."+t.Name.Name).add(t.Type, packages)
				}
			}
		}
	}
}

func (d declarations) of(name string) *declaration {
	if d[name] == nil {
		d[name] = &declaration{methods: map[string]bool{}, fields: map[string]bool{}}
	}
	return d[name]
}

// add adds the fields of a struct, or the methods of an interface.
func (t *declaration) add(expr ast.Expr, packages map[string]string) {
	var members []*ast.Field
	names := t.fields
	switch expr := expr.(type) {
	case *ast.StructType:
		members = expr.Fields.List
	case *ast.InterfaceType:
		members, names = expr.Methods.List, t.methods
	}
	for _, member := range members {
		for _, name := range member.Names {
			key := name.Name
			if key == "_" { // each of them counts
				key = fmt.Sprint("_", len(names))
			}
			names[key] = true
		}
		if len(member.Names) > 0 {
			continue
		}
		pkg, name := nameOf(member.Type)
		if dir, ours := packages[pkg]; ours {
			t.embedded = append(t.embedded, dir+"."+name)
		}
		if _, ok := expr.(*ast.StructType); ok {
			t.fields[name] = true
		}
	}
}

// sizes returns the sizes of the types.
func (d declarations) sizes() map[string]size {
	sizes := make(map[string]size, len(d))
	for name := range d {
		all := declaration{methods: map[string]bool{}, fields: map[string]bool{}}
		d.promote(name, &all, map[string]bool{})
		sizes[name] = size{methods: len(all.methods), fields: len(all.fields)}
	}
	return sizes
}

// promote adds to all the names that the named type declares or promotes. A declared name hides a promoted one of the
// same kind, so both count once. seen are the types that were already added.
func (d declarations) promote(name string, all *declaration, seen map[string]bool) {
	t := d[name]
	if t == nil || seen[name] {
		return
	}
	seen[name] = true
	maps.Copy(all.methods, t.methods)
	maps.Copy(all.fields, t.fields)
	for _, embedded := range t.embedded {
		d.promote(embedded, all, seen)
	}
}

// nameOf returns the package and the name of a type, without pointer and type parameters. pkg is empty for a type of
// the same package.
func nameOf(t ast.Expr) (pkg, name string) {
	switch t := t.(type) {
	case *ast.StarExpr:
		return nameOf(t.X)
	case *ast.ParenExpr:
		return nameOf(t.X)
	case *ast.IndexExpr:
		return nameOf(t.X)
	case *ast.IndexListExpr:
		return nameOf(t.X)
	case *ast.SelectorExpr:
		_, pkg = nameOf(t.X)
		return pkg, t.Sel.Name
	case *ast.Ident:
		return "", t.Name
	}
	return "", ""
}

// check returns a sentence for each type that is too large.
func check(sizes map[string]size) (wrong []string) {
	for name, s := range sizes {
		if s.methods > limit.methods {
			wrong = append(wrong, fmt.Sprintf("%s has %d methods, at most %d are allowed: split it by what it does", name, s.methods, limit.methods))
		}
		if s.fields > limit.fields {
			wrong = append(wrong, fmt.Sprintf("%s has %d fields, at most %d are allowed: split it by what it holds", name, s.fields, limit.fields))
		}
	}
	slices.Sort(wrong)
	return wrong
}
