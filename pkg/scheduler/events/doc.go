// SPDX-License-Identifier: Apache-2.0

// Package events records events off the session loop, without repetitions and without silent losses.
//
// A Recorder (recorder.go) drops an event that would only repeat the last one of an object. The Writer (writer.go)
// writes the others to the API server: with a bound on all and on each object, fair to namespaces (mailbox.go), and
// with retries.
package events
