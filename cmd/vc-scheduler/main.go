// SPDX-License-Identifier: Apache-2.0

// Command vc-scheduler is Volcano's scheduler with bind transactions: a drop-in for upstream's binary of that name.
package main

import (
	"fmt"
	"os"
	_ "time/tzdata" // $TZ says in which zone the plugin tdm's hours are; the image has no database of zones.

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/app"
)

func main() {
	if err := app.Main(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
