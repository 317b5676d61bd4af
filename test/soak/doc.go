// SPDX-License-Identifier: Apache-2.0

// The soak test creates and deletes gangs on a real control plane while faults happen at random, and reports whether
// the scheduler kept its guarantees:
//
//	         submit, delete, resize gangs           cause faults, one after the other
//	chapter ──────────────────────────────┬──────────────────────────────────────────────┐
//	                                      ▼                                              ▼
//	quiet point: all faults are repaired; the minimum of every gang of the usual priority must be bound, for which pods of
//	             low priority must be evicted. Then gangs of low priority are removed: every other gang must be bound,
//	             nothing may be left behind, and no resources may be reserved needlessly: a gang as large as the free
//	             capacity is bound, and removed
//
// There are three chapters, each with many rounds between quiet points. In the first and the last, everything can
// fail, including the schedulers' processes. In the second, which takes half of the time, the same processes keep
// running, so that their leaks show.
//
// The test compares node capacity with the API server's own list all the time. One seed determines the faults and the
// workload. Their effect depends on timing.
package main
