// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
)

// auditPolicy makes the API server log who wrote what for the scheduler's identities, and nothing for all others.
var auditPolicy = fmt.Sprintf(`apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
  users:
  - system:serviceaccount:%s:%s
  - system:serviceaccount:kube-system:kube-scheduler
  verbs: [create, update, patch, delete, deletecollection]
- level: None
`, controlplane.Namespace, controlplane.SchedulerServiceAccount)

const (
	// writeQuiet is how long the scheduler must write nothing to be taken as done, writePatience how long that is
	// waited for.
	writeQuiet    = 2 * time.Second
	writePatience = 30 * time.Second
)

// auditLog is the API server's log of the scheduler's writes.
type auditLog struct{ path string }

// apiServerArgs are the flags that make the API server keep the log. It is written as requests end, so that no
// write is missing.
func (a auditLog) apiServerArgs(policyPath string) []string {
	return []string{"--audit-policy-file=" + policyPath, "--audit-log-path=" + a.path, "--audit-log-mode=blocking", "--audit-log-maxsize=4096"}
}

// size is how much was written by now.
func (a auditLog) size() (int64, error) {
	info, err := os.Stat(a.path)
	if os.IsNotExist(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// waitQuiet waits until the scheduler has written nothing for a while and calls grew each time it has. It says
// whether the writes ended within the patience.
func (a auditLog) waitQuiet(ctx context.Context, grew func()) (bool, error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	start, changed, last := time.Now(), time.Now(), int64(-1)
	for {
		size, err := a.size()
		if err != nil {
			return false, err
		}
		if size != last {
			last, changed = size, time.Now()
			grew()
		}
		switch {
		case time.Since(changed) >= writeQuiet:
			return true, nil
		case time.Since(start) >= writePatience:
			return false, nil
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// writeCount counts writes by kind, such as "create pods/binding"; refused ones, whose status is 400 or above, apart.
type writeCount struct {
	kinds   map[string]int
	refused map[string]int
}

// since counts the writes logged behind the offset.
func (a auditLog) since(offset int64) (writeCount, error) {
	f, err := os.Open(a.path)
	if err != nil {
		return writeCount{}, err
	}
	defer f.Close()
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return writeCount{}, err
	}
	return countWrites(f)
}

func countWrites(log io.Reader) (writeCount, error) {
	count := writeCount{kinds: map[string]int{}, refused: map[string]int{}}
	scanner := bufio.NewScanner(log)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		line := bytes.TrimSpace(scanner.Bytes())
		if len(line) == 0 {
			continue
		}
		var entry struct {
			Verb      string
			ObjectRef struct{ Resource, Subresource string }
			// ResponseStatus has no code below 400 when the answer was no Status object.
			ResponseStatus struct{ Code int }
		}
		if err := json.Unmarshal(line, &entry); err != nil {
			return count, fmt.Errorf("audit log: %w", err)
		}
		kind := entry.Verb + " " + entry.ObjectRef.Resource
		if entry.ObjectRef.Subresource != "" {
			kind += "/" + entry.ObjectRef.Subresource
		}
		if entry.ResponseStatus.Code >= 400 {
			count.refused[kind]++
			continue
		}
		count.kinds[kind]++
	}
	return count, scanner.Err()
}
