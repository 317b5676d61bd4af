// SPDX-License-Identifier: Apache-2.0

// Package metrics holds this project's metrics, which have the same prefix as upstream's. New registers them and returns
// Metrics, whose methods record what happened. The numbers of gangs by state (GangCounts) are computed at each scrape.
package metrics
