// SPDX-License-Identifier: Apache-2.0

// Command refdoc writes the generated pages and pictures of docs, except docs/configuration.md, below the given folder.
// Its tests check that the other pages have valid links, an index, and every annotation, condition and event of the
// code.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// outputs returns the functions that generate the files, by the path of the file in the repository.
func outputs() map[string]func() ([]byte, error) {
	all := map[string]func() ([]byte, error){"docs/metrics.md": metricsPage}
	for path, draw := range pictures {
		all[path] = func() ([]byte, error) { return draw().svg(), nil }
	}
	return all
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "refdoc:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: refdoc FOLDER")
	}
	for path, generate := range outputs() {
		data, err := generate()
		if err != nil {
			return fmt.Errorf("generating %s: %w", path, err)
		}
		file := filepath.Join(args[0], path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, bytes.TrimLeft(data, "\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}
