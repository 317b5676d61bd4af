// SPDX-License-Identifier: Apache-2.0

// Command testscheduler is the scheduler of the end-to-end tests: ours, with additional plugins that leave traces in
// the cluster and fail, panic or hang when a test orders it.
package main

import (
	"fmt"
	"os"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/app"
)

func main() {
	if err := app.Main(spec("first"), spec("second"), spec("third")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
