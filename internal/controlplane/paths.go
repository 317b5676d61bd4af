// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// RepoRoot returns the directory with the repository's go.mod. It searches upwards from the working directory, and then
// from the running executable.
func RepoRoot() (string, error) {
	var starts []string
	if wd, err := os.Getwd(); err == nil {
		starts = append(starts, wd)
	}
	if exe, err := os.Executable(); err == nil {
		starts = append(starts, filepath.Dir(exe))
	}
	for _, start := range starts {
		for dir := start; ; dir = filepath.Dir(dir) {
			// The tool modules also have a go.mod; the root is the one next to the charts.
			if isFile(filepath.Join(dir, "go.mod")) && isFile(filepath.Join(dir, chartPath, "Chart.yaml")) {
				return dir, nil
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return "", errors.New("no volcano-prebind checkout found above the working directory or the executable")
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// binary returns the path of an executable. If it is missing, the error says how to build it.
func binary(dir, name string) (string, error) {
	path := filepath.Join(dir, name)
	if !isFile(path) {
		return "", fmt.Errorf("%s is missing: run `make %s`", path, filepath.Join("bin", name))
	}
	return path, nil
}
