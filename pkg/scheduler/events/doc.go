// SPDX-License-Identifier: Apache-2.0

// Package events records events off the session loop, without repetitions and without silent losses.
//
// A Recorder (recorder.go) drops an event that would only repeat the last event of an object. The Writer
// (writer.go) writes the other events to the API server: bounded in total and for each object, fair to namespaces
// (mailbox.go), and with retries.
package events
