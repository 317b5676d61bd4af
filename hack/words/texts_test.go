// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the files that TestTexts compares with")

// highestLevel is the highest level of log lines that operators read.
const highestLevel = 2

// TestTexts compares the texts for users and operators with golden files, so that a reviewer can read them in one place.
// There is one file for each kind of text: log lines up to level 2, descriptions of flags, answers of HTTP servers, and
// messages, which are all other texts of three words or more. Run go test ./hack/words -run TestTexts -update to write
// the files.
func TestTexts(t *testing.T) {
	found := map[string]map[string]bool{"logs": {}, "flags": {}, "answers": {}, "messages": {}}
	for _, folder := range []string{"cmd", "internal", "pkg"} {
		err := filepath.WalkDir(filepath.Join("../..", folder), func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && (entry.Name() == "testing" || strings.HasSuffix(filepath.ToSlash(path), "pkg/client")):
				return filepath.SkipDir
			case entry.IsDir(), !strings.HasSuffix(path, ".go"), strings.HasSuffix(path, "_test.go"):
				return nil
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			where := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../../")
			ast.Inspect(file, func(node ast.Node) bool {
				switch node := node.(type) {
				case *ast.CallExpr:
					if kind, text := textOf(where, node); kind != "" {
						found[kind][where+": "+text] = true
						return false
					}
				case *ast.KeyValueExpr: // Generated pages contain the docs of arguments and metrics.
					return !isName(node.Key, "Doc") && !isName(node.Key, "Help")
				case *ast.BasicLit:
					for _, text := range stringsOf(node) {
						if len(strings.Fields(text)) > 2 {
							found["messages"][fmt.Sprintf("%s: %q", where, text)] = true
						}
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for kind, texts := range found {
		var all []string
		for text := range texts {
			all = append(all, text)
		}
		slices.Sort(all)
		name, got := filepath.Join("testdata", kind+".txt"), strings.Join(all, "\n")+"\n"
		if *update {
			if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
			t.Errorf("%s differs; review the texts and run: go test ./hack/words -run TestTexts -update\n(-file +code):\n%s", name, diff)
		}
	}
}

// textOf returns the text that the call writes for operators, and its kind: answers, flags or logs. where is the
// package of the call. Both results are empty for other calls.
func textOf(where string, call *ast.CallExpr) (kind, text string) {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	texts := stringsOf(call.Args...)
	if len(texts) == 0 {
		return "", ""
	}
	switch name := method.Sel.Name; {
	case name == "Error" && isName(method.X, "http"), name == "Sprintf" && where == "cmd/vc-webhook-manager":
		return "answers", strings.Join(texts, "")
	case len(texts) > 1 && (strings.HasSuffix(name, "Var") || isName(method.X, "pflag") || isName(method.X, "fs")):
		return "flags", "--" + texts[0] + ": " + strings.Join(stringsOf(call.Args[len(call.Args)-1]), "...")
	case slices.Contains([]string{"Info", "InfoS", "Error", "ErrorS", "Warning"}, name):
		if level, isLog := logLevel(method.X); isLog && level <= highestLevel {
			return "logs", fmt.Sprintf("%s %d: %s", strings.TrimSuffix(name, "S"), level, texts[0])
		}
	}
	return "", ""
}

// logLevel returns the level of a logger; isLog reports whether the expression is one.
func logLevel(x ast.Expr) (level int, isLog bool) {
	switch x := x.(type) {
	case *ast.Ident:
		return 0, x.Name == "klog" || x.Name == "logger"
	case *ast.CallExpr:
		method, ok := x.Fun.(*ast.SelectorExpr)
		if !ok {
			return logLevel(x.Fun)
		}
		level, isLog = logLevel(method.X)
		if method.Sel.Name == "V" && len(x.Args) == 1 {
			if number, ok := x.Args[0].(*ast.BasicLit); ok {
				level, _ = strconv.Atoi(number.Value)
			}
		}
		return level, isLog
	}
	return 0, false
}

func isName(x ast.Expr, name string) bool {
	ident, ok := x.(*ast.Ident)
	return ok && ident.Name == name
}

// stringsOf returns the string constants in the arguments of a call, in their order.
func stringsOf(args ...ast.Expr) (all []string) {
	for _, arg := range args {
		ast.Inspect(arg, func(node ast.Node) bool {
			if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				if value, err := strconv.Unquote(literal.Value); err == nil {
					all = append(all, value)
				}
			}
			return true
		})
	}
	return all
}
