// SPDX-License-Identifier: Apache-2.0

// Package outage lets the informers of a process survive an outage of the API server. Requests of informers wait for
// the end of the outage, so that all informers work again within moments. The package does not depend on the scheduler.
package outage
