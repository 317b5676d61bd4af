// SPDX-License-Identifier: Apache-2.0

// Command confdoc writes docs/configuration.md to its standard output.
package main

import (
	"fmt"
	"os"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/app"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/config"
)

func main() {
	if err := config.WriteDoc(os.Stdout, config.NewCatalogue(app.PluginSpecs()...)); err != nil {
		fmt.Fprintln(os.Stderr, "confdoc:", err)
		os.Exit(1)
	}
}
