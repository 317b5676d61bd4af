// SPDX-License-Identifier: Apache-2.0

// Package config holds what the project installs: the chart, generated CRDs, samples. It imports nothing, and the daemons
// do not import it: their configuration is a file.
package config

import _ "embed"

// DefaultConf is the volcano-scheduler.conf that the chart installs.
//
//go:embed charts/volcano-prebind/files/volcano-scheduler.conf
var DefaultConf string
