// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// auditPolicy makes the API server log the sequential calls of the scheduler for a gang of the victim: the
// reservation and allocation of a claim, the read of the minimum, and the Bindings.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: ["system:serviceaccount:volcano-system:volcano-prebind-scheduler"]
  namespaces: [` + victimNamespace + `]
  verbs: [create, update, patch]
  resources: [{group: "", resources: [pods/binding]}, {group: resource.k8s.io, resources: [resourceclaims, resourceclaims/status]}]
- level: Metadata
  users: ["system:serviceaccount:volcano-system:volcano-prebind-scheduler"]
  namespaces: [` + victimNamespace + `]
  verbs: [get]
  resources: [{group: scheduling.volcano.sh, resources: [podgroups]}]
- level: None
`

// audited returns the log in the directory, and the flags with which the API server writes it.
func audited(dir string) (*calls, []string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err
	}
	policy, log := filepath.Join(dir, "audit-policy.yaml"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return nil, nil, err
	}
	return &calls{path: log, ofGang: map[string][]span{}}, []string{"--audit-policy-file=" + policy, "--audit-log-path=" + log}, nil
}

// calls has the times of the scheduler's calls for the victim's gangs, by gang name.
type calls struct {
	path   string
	offset int64
	ofGang map[string][]span
}

type span struct{ from, to time.Time }

// read reads the lines that were logged since the last call.
func (c *calls) read() error {
	file, err := os.Open(c.path)
	if errors.Is(err, os.ErrNotExist) { // No call was made.
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.Seek(c.offset, io.SeekStart); err != nil {
		return err
	}
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // An incomplete line is read the next time.
			return nil
		}
		if err != nil {
			return err
		}
		c.offset += int64(len(line))
		if err := c.add(line); err != nil {
			return err
		}
	}
}

func (c *calls) add(line []byte) error {
	var event struct {
		ObjectRef                struct{ Resource, Name string }
		RequestReceivedTimestamp time.Time
		StageTimestamp           time.Time
	}
	if err := json.Unmarshal(line, &event); err != nil {
		return err
	}
	gang := event.ObjectRef.Name
	if event.ObjectRef.Resource != groupKind {
		if i := strings.LastIndex(gang, "-"); i >= 0 { // Members and their claims are numbered.
			gang = gang[:i]
		}
	}
	c.ofGang[gang] = append(c.ofGang[gang], span{event.RequestReceivedTimestamp, event.StageTimestamp})
	return nil
}

// within returns how much of the time between from and to the API server was handling a call for the gang. Concurrent
// calls count once.
func (c *calls) within(gang string, from, to time.Time) time.Duration {
	spans := slices.Clone(c.ofGang[gang])
	slices.SortFunc(spans, func(a, b span) int { return a.from.Compare(b.from) })
	var sum time.Duration
	for _, s := range spans {
		if s.from.Before(from) {
			s.from = from
		}
		if s.to.After(to) {
			s.to = to
		}
		if s.to.After(s.from) {
			sum += s.to.Sub(s.from)
			from = s.to
		}
	}
	return sum
}
