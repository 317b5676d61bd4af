// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"os"
	"path/filepath"
)

// folder is the absolute path of the directory with certificates, data and logs.
type folder string

func (f folder) join(elem ...string) string {
	return filepath.Join(append([]string{string(f)}, elem...)...)
}

func (f folder) pki(name string) string        { return f.join("pki", name) }
func (f folder) kubeconfig(name string) string { return f.join("kubeconfig", name) }
func (f folder) log(name string) string        { return f.join("logs", name+".log") }

func (f folder) sub(elem ...string) (string, error) {
	path := f.join(elem...)
	return path, os.MkdirAll(path, 0o700)
}
