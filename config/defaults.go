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

// volumePlugin stands in DefaultConf for what upstream's predicates plugin does of itself.
const volumePlugin = "  - name: volumebinding\n"

// UpstreamConf is DefaultConf for upstream's scheduler, which does not have the plugin volumebinding.
func UpstreamConf() string { return strings.Replace(DefaultConf, volumePlugin, "", 1) }
