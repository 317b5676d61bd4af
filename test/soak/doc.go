// SPDX-License-Identifier: Apache-2.0

// The soak lets gangs come and go on a real control plane while things break at random, and says whether the scheduler
// kept its promises:
//
//	         submit, delete, resize gangs           break things, one after the other
//	chapter ──────────────────────────────┬──────────────────────────────────────────────┐
//	                                      ▼                                              ▼
//	quiet point: all is mended; every gang must be bound, nothing may be left behind, and what the books say is free must
//	             be: a gang as large as the free capacity is bound, and removed
//
// There are three chapters, each of many rounds between quiet points. In the first and the last everything breaks, the
// schedulers' processes among it. In the second, which is half of the time, the same processes go on living, so that what
// they leak is seen.
//
// Node capacity is checked against the API server's own list all the time. Faults and workload come from one seed; what
// they hit depends on timing.
package main
