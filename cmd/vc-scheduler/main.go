// SPDX-License-Identifier: Apache-2.0

// Command vc-scheduler is Volcano's scheduler with bind transactions: a drop-in for upstream's binary of that name.
package main

import (
	"fmt"
	"os"
	_ "time/tzdata" // for $TZ, the zone of the hours in plugin tdm: the image has no time zone database

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/app"
)

func main() {
	if err := app.Main(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
