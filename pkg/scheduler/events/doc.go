// SPDX-License-Identifier: Apache-2.0

// Package events tells people what happened, off the session loop, without repeating itself and without losing anything in silence.
//
// A Recorder (recorder.go) drops what would only repeat the last word on an object. The Writer (writer.go) takes the rest to the
// API server: bounded in all and for each object, fair to namespaces (mailbox.go), and again while that may help.
package events
