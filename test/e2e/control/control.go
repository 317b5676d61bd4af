// SPDX-License-Identifier: Apache-2.0

package control

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Labels and annotations with which the plugins leave traces in the cluster.
const (
	// PluginLabel is on each ConfigMap that a step created, with the plugin's name.
	PluginLabel = "e2e.volcano-prebind.io/plugin"
	// StagedPrefix and a plugin's name are the key of the annotation that its step stages. Its value is the node.
	StagedPrefix = "e2e.volcano-prebind.io/"
	// PodKey, UIDKey and NodeKey are the keys of a ConfigMap's data.
	PodKey  = "pod"
	UIDKey  = "uid"
	NodeKey = "node"
)

// Verb is an order to a plugin.
type Verb string

const (
	// Fail makes PreBind fail after it has left its trace.
	Fail Verb = "fail"
	// Panic makes PreBind panic after it has left its trace.
	Panic Verb = "panic"
	// Hang makes PreBind wait, after it has left its trace, until the order is revoked or its context ends.
	Hang Verb = "hang"
	// FailRollback makes Rollback fail before it has removed anything.
	FailRollback Verb = "fail-rollback"
	// Random makes PreBind and Rollback fail in a part of their runs, which is an argument of the plugin.
	Random Verb = "random"
	// Reschedule makes the provisioner ask for another node.
	Reschedule Verb = "reschedule"
)

// Provisioner takes orders and keeps the journal as a plugin of this name: Fail, Hang and Reschedule, for a claim or
// a node. It is in a separate module, which uses the files but not this package.
const Provisioner = "provisioner"

// Anything is the object of an order for every pod and node.
const Anything = "anything"

// Dir is the directory of the orders and the journal.
type Dir string

// Order gives the plugin an order for the object, a pod or a node by name.
func (d Dir) Order(plugin, object string, verb Verb) error {
	return os.WriteFile(d.order(plugin, object, verb), nil, 0o600)
}

// Revoke revokes an order. It does nothing if the order does not exist.
func (d Dir) Revoke(plugin, object string, verb Verb) error {
	if err := os.Remove(d.order(plugin, object, verb)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Ordered reports whether the plugin has this order for one of the objects.
func (d Dir) Ordered(plugin string, verb Verb, objects ...string) bool {
	for _, object := range append(objects, Anything) {
		if _, err := os.Stat(d.order(plugin, object, verb)); err == nil {
			return true
		}
	}
	return false
}

func (d Dir) order(plugin, object string, verb Verb) string {
	return filepath.Join(string(d), fmt.Sprintf("order.%s.%s.%s", plugin, object, verb))
}

// Call is a method of a plugin.
type Call string

// The methods.
const (
	PreBind  Call = "prebind"
	Rollback Call = "rollback"
	Recover  Call = "recover"
	// Provision is the provisioner's call. Its Pod is a claim.
	Provision Call = "provision"
)

// Entry is a line of the journal: a call that began, or ended with a result.
type Entry struct {
	Plugin string
	Call   Call
	// Pod and Node are names. They are empty for Recover.
	Pod, Node string
	// Phase is Begin, OK or Error.
	Phase string
}

// The phases of a call.
const (
	Begin = "begin"
	OK    = "ok"
	Error = "error"
)

// Record appends to the journal. A line is one write, so several processes may write concurrently.
func (d Dir) Record(e Entry) error {
	file, err := os.OpenFile(d.journal(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(strings.Join([]string{e.Plugin, string(e.Call), e.Pod, e.Node, e.Phase}, ",") + "\n")
	return errors.Join(err, file.Close())
}

// Journal returns the recorded entries in order.
func (d Dir) Journal() ([]Entry, error) {
	data, err := os.ReadFile(d.journal())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var entries []Entry
	for line := range strings.Lines(string(data)) {
		field := strings.Split(strings.TrimSuffix(line, "\n"), ",")
		if len(field) != 5 {
			return nil, fmt.Errorf("journal %s: line %q has %d fields, not 5", d.journal(), line, len(field))
		}
		entries = append(entries, Entry{Plugin: field[0], Call: Call(field[1]), Pod: field[2], Node: field[3], Phase: field[4]})
	}
	return entries, nil
}

func (d Dir) journal() string { return filepath.Join(string(d), "journal") }
