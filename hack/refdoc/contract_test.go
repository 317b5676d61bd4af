// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestThePageForPluginAuthorsNamesEachInterface checks that the page for plugin authors names each interface of the
// contract.
func TestThePageForPluginAuthorsNamesEachInterface(t *testing.T) {
	page := readPages(t)["docs/prebind.md"]
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "pkg/scheduler/framework/contract.go"), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if _, ok := spec.Type.(*ast.InterfaceType); ok {
			found++
			if name := spec.Name.Name; !regexp.MustCompile("`(?:framework\\.)?" + name + "`").MatchString(page) {
				t.Errorf("docs/prebind.md does not name the interface %s", name)
			}
		}
		return false
	})
	if found < 10 {
		t.Errorf("%d interfaces found, want more", found)
	}
}

// TestImportsPointOneWay checks that imports follow the rules of docs/architecture.md. Tests may import more.
func TestImportsPointOneWay(t *testing.T) {
	const module = "github.com/volcano-prebind/volcano-prebind/"
	above := func(packages ...string) []string {
		for i, name := range packages {
			packages[i] = module + "pkg/scheduler/" + name
		}
		return packages
	}
	clients := []string{"k8s.io/client-go/", "volcano.sh/apis/pkg/client/", module + "pkg/client/"}
	rules := map[string][]string{
		"internal":                          {module + "pkg/scheduler"},
		"pkg/gangs":                         {module + "pkg/scheduler"},
		"pkg/controllers":                   {module + "pkg/scheduler"},
		"pkg/scheduler/accounting":          {module},
		"pkg/gangs/conditions":              {module},
		"pkg/scheduler/topology":            {module},
		"pkg/scheduler/upstream":            {module + "pkg"},
		"pkg/scheduler/binding":             append(above(""), clients...),
		"pkg/scheduler/snapshot":            above("app", "cache", "actions", "plugins", "framework", "devices", "topology", "books", "ledger", "report", "quarantine"),
		"pkg/scheduler/devices":             above("app", "cache", "actions", "plugins", "framework", "snapshot", "topology", "books", "ledger", "report", "quarantine"),
		"pkg/scheduler/books":               above("app", "cache", "actions", "plugins", "framework", "ledger", "report", "quarantine"),
		"pkg/scheduler/framework":           above("app", "cache", "actions", "plugins", "books", "ledger", "report", "quarantine"),
		"pkg/scheduler/quarantine":          above("app", "cache", "actions", "plugins", "books", "ledger", "report"),
		"pkg/scheduler/report":              above("app", "cache", "actions", "plugins", "ledger"),
		"pkg/scheduler/ledger":              above("app", "cache", "actions", "plugins", "framework"),
		"pkg/scheduler/report/statuswriter": above("app", "cache", "actions", "plugins", "books", "framework", "ledger", "report", "quarantine"),
		"pkg/scheduler/report/events":       above("app", "cache", "actions", "plugins", "books", "framework", "ledger", "report", "quarantine"),
		"pkg/scheduler/cache":               above("app", "actions", "plugins"),
		"pkg/scheduler/actions":             above("app", "cache", "plugins", "books", "ledger", "report", "quarantine"),
		"pkg/scheduler/plugins":             above("app", "cache", "actions", "books", "ledger", "report", "quarantine"),
	}
	checked := map[string]bool{}
	for file, imports := range importsOf(t, "internal", "pkg") {
		dir := filepath.ToSlash(filepath.Dir(file))
		for part, forbidden := range rules {
			if dir != part && !strings.HasPrefix(dir, part+"/") {
				continue
			}
			checked[part] = true
			for _, imported := range imports {
				within := imported == module+part || strings.HasPrefix(imported, module+part+"/")
				if !within && slices.ContainsFunc(forbidden, func(above string) bool { return strings.HasPrefix(imported+"/", strings.TrimSuffix(above, "/")+"/") }) {
					t.Errorf("%s imports %s", file, imported)
				}
			}
		}
		if plugin, is := strings.CutPrefix(dir, "pkg/scheduler/plugins/"); is {
			plugin, _, _ = strings.Cut(plugin, "/")
			for _, imported := range imports {
				if other, is := strings.CutPrefix(imported, module+"pkg/scheduler/plugins/"); is && other != plugin && !strings.HasPrefix(other, plugin+"/") {
					t.Errorf("%s imports plugin %s", file, other)
				}
			}
		}
	}
	for part := range rules {
		if !checked[part] {
			t.Errorf("no file of %s was found", part)
		}
	}
}

// importsOf returns the imports of the non-test files below the folders.
func importsOf(t *testing.T, folders ...string) map[string][]string {
	t.Helper()
	imports := map[string][]string{}
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "/testing/") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			imports[name] = nil
			for _, spec := range file.Imports {
				imported, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					return err
				}
				imports[name] = append(imports[name], imported)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return imports
}
