// SPDX-License-Identifier: Apache-2.0

// Package config holds the files that the project installs: the chart, generated CRDs and samples. It imports only Go's
// standard library. The daemons do not import it, because they read their configuration from a file.
package config

import (
	_ "embed"
	"strings"
)

// DefaultConf is the volcano-scheduler.conf that the chart installs.
//
//go:embed charts/volcano-prebind/files/volcano-scheduler.conf
var DefaultConf string

// UpstreamConf returns DefaultConf without the plugins coscheduling and volumebinding, which upstream's scheduler does
// not have. Upstream's predicates plugin binds volumes itself.
func UpstreamConf() string {
	return strings.NewReplacer("  - name: coscheduling\n", "", "  - name: volumebinding\n", "").Replace(DefaultConf)
}
