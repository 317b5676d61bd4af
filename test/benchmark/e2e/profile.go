// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// profile writes a CPU profile of the scheduler, from now on, into the plan's directory.
func (s *testbed) profile(ctx context.Context) error {
	if err := os.MkdirAll(s.plan.profile.dir, 0o755); err != nil {
		return err
	}
	url := fmt.Sprintf("%s/debug/pprof/profile?seconds=%d",
		strings.TrimSuffix(s.scheduler.MetricsURL(), "/metrics"), int(s.plan.profile.length.Seconds()))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("profile: %s: %s", response.Status, data)
	}
	name := fmt.Sprintf("%s-%s-%s-%d.pprof", s.key.Scheduler, s.key.Mode, s.key.Placement, s.key.Run)
	return os.WriteFile(filepath.Join(s.plan.profile.dir, name), data, 0o644)
}
