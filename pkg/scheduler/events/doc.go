// SPDX-License-Identifier: Apache-2.0

// Package events records events outside the session loop. It drops repetitions, and loses no event silently.
//
// A Recorder (recorder.go) drops an event that would only repeat the last event of an object. The Writer (writer.go)
// writes the other events to the API server, with retries. It limits the number of events, in total and for each
// object, and is fair to namespaces (mailbox.go).
package events
