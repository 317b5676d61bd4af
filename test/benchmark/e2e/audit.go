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

// auditPolicy makes the API server log the writes of the scheduler's identities, and nothing for all others.
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
	// writeQuiet is how long the scheduler must not write to count as done, and writePatience the time limit for
	// that.
	writeQuiet    = 2 * time.Second
	writePatience = 30 * time.Second
)

// auditLog is the API server's log of the scheduler's writes.
type auditLog struct{ path string }

// apiServerArgs returns the flags that make the API server write the log. It logs requests when they end, so no write
// is missing.
func (a auditLog) apiServerArgs(policyPath string) []string {
	return []string{"--audit-policy-file=" + policyPath, "--audit-log-path=" + a.path, "--audit-log-mode=blocking", "--audit-log-maxsize=4096"}
}

// size returns the current size of the log.
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

// waitQuiet waits until the scheduler has not written for a while, and calls grew after each write. It reports
// whether the writes ended within maxWait.
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

// writeCount counts writes by kind, such as "create pods/binding". Rejected writes, with a status of 400 or above,
// count separately.
type writeCount struct {
	kinds   map[string]int
	refused map[string]int
}

// since counts the writes that were logged after the offset.
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
			// ResponseStatus.Code is the HTTP status code of the response.
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
