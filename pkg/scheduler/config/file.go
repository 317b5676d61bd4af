// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// maxSize bounds a configuration file; a ConfigMap cannot hold more.
const maxSize = 1 << 20

// readFile reads a configuration file. It never blocks: the file is opened in non-blocking mode, because opening a FIFO
// or a device may block forever, and only regular files are read.
func readFile(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &os.PathError{Op: "read", Path: path, Err: fmt.Errorf("not a regular file (%s)", info.Mode().Type())}
	}
	data, err := io.ReadAll(io.LimitReader(file, maxSize+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxSize {
		return nil, &os.PathError{Op: "read", Path: path, Err: errors.New("larger than 1 MiB")}
	}
	return data, nil
}
