// SPDX-License-Identifier: Apache-2.0

// Package config holds what the project installs: the chart, generated CRDs, samples. It imports nothing that is not Go's own, and
// the daemons do not import it: their configuration is a file.
package config

import (
	_ "embed"
	"strings"
)

// DefaultConf is the volcano-scheduler.conf that the chart installs.
//
//go:embed charts/volcano-prebind/files/volcano-scheduler.conf
var DefaultConf string

// UpstreamConf is DefaultConf for upstream's scheduler, which does not have the plugins coscheduling and volumebinding; its predicates
// plugin binds volumes of itself.
func UpstreamConf() string {
	return strings.NewReplacer("  - name: coscheduling\n", "", "  - name: volumebinding\n", "").Replace(DefaultConf)
}
