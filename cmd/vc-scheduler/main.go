// SPDX-License-Identifier: Apache-2.0

// Command vc-scheduler is Volcano's scheduler with bind transactions. It is a drop-in replacement for upstream's binary
// with the same name.
package main

import (
	"fmt"
	"os"
	_ "time/tzdata" // plugin tdm uses the time zone in $TZ, and the image has no time zone database

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/app"
)

func main() {
	if err := app.Main(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
