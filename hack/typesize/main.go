// SPDX-License-Identifier: Apache-2.0

// Command typesize checks that no type of this project has more than 40 methods or 20 fields. It counts declarations:
// methods on T and *T, and the fields of a struct, where an embedded type counts as one field. Tests and generated code do
// not count.
//
// Types that exceed the limit are in the list of ceilings (ceilings.go). Such a type may not grow. A ceiling that is higher
// than the size of its type, or that is not needed, is an error.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// size is how many methods and fields a type has, or may have.
type size struct{ methods, fields int }

// limit is the size that a type without a ceiling may have.
var limit = size{methods: 40, fields: 20}

func main() {
	sizes := map[string]size{}
	for _, root := range []string{"pkg", "cmd", "internal"} {
		if err := count(root, sizes); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	if wrong := check(sizes, ceilings); len(wrong) > 0 {
		fmt.Fprintln(os.Stderr, strings.Join(wrong, "\n"))
		os.Exit(1)
	}
}

// count adds the sizes of the types in the Go files under the directory, by "directory.Type".
func count(root string, sizes map[string]size) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("reading %s: %w", path, err)
		}
		if !ast.IsGenerated(file) {
			countFile(filepath.ToSlash(filepath.Dir(path)), file, sizes)
		}
		return nil
	})
}

func countFile(dir string, file *ast.File, sizes map[string]size) {
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv == nil || len(decl.Recv.List) == 0 {
				continue
			}
			name := dir + "." + receiver(decl.Recv.List[0].Type)
			s := sizes[name]
			s.methods++
			sizes[name] = s
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				if t, ok := spec.(*ast.TypeSpec); ok {
					name := dir + "." + t.Name.Name
					s := sizes[name]
					s.fields = fields(t.Type)
					sizes[name] = s
				}
			}
		}
	}
}

// receiver returns the name of the type on which a method is declared, without pointer and type parameters.
func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.ParenExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}

// fields counts the fields of a struct; other types have none.
func fields(t ast.Expr) (n int) {
	s, ok := t.(*ast.StructType)
	if !ok {
		return 0
	}
	for _, f := range s.Fields.List {
		n += max(1, len(f.Names)) // an embedded type has no name
	}
	return n
}

// check returns a sentence for each type that is too large, and for each ceiling that is too high.
func check(sizes, ceilings map[string]size) (wrong []string) {
	for name, s := range sizes {
		most, why := limit, ""
		if ceiling, ok := ceilings[name]; ok {
			most = size{max(ceiling.methods, limit.methods), max(ceiling.fields, limit.fields)}
			why = " by hack/typesize/ceilings.go"
		}
		if s.methods > most.methods {
			wrong = append(wrong, fmt.Sprintf("%s has %d methods, at most %d are allowed%s: split it by what it does", name, s.methods, most.methods, why))
		}
		if s.fields > most.fields {
			wrong = append(wrong, fmt.Sprintf("%s has %d fields, at most %d are allowed%s: split it by what it holds", name, s.fields, most.fields, why))
		}
	}
	for name, ceiling := range ceilings {
		s := sizes[name]
		switch {
		case s.methods <= limit.methods && s.fields <= limit.fields:
			wrong = append(wrong, fmt.Sprintf("%s has %d methods and %d fields, which needs no ceiling: delete its entry in hack/typesize/ceilings.go", name, s.methods, s.fields))
		case ceiling.methods > max(s.methods, limit.methods) || ceiling.fields > max(s.fields, limit.fields):
			wrong = append(wrong, fmt.Sprintf("%s has only %d methods and %d fields: lower its ceiling in hack/typesize/ceilings.go to that", name, s.methods, s.fields))
		}
	}
	slices.Sort(wrong)
	return wrong
}
