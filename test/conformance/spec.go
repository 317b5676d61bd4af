// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// spec is a spec of a suite, with its name in the suite's report.
type spec struct {
	name string
	// file and line are the spec's position.
	file string
	line int
}

// ginkgoReport has the fields that are read from ginkgo's JSON report.
type ginkgoReport []struct {
	SpecReports []struct {
		LeafNodeType, LeafNodeText string
		ContainerHierarchyTexts    []string
		LeafNodeLocation           ginkgoLocation
		State                      string
		RunTime                    time.Duration
		Failure                    struct {
			Message  string
			Location ginkgoLocation
		}
	}
}

type ginkgoLocation struct {
	FileName   string
	LineNumber int
}

const (
	// specGrace is how much longer than its timeout a spec's process may take.
	specGrace = time.Minute
	// whyLimit is the maximum length of a failure's text.
	whyLimit = 300
)

// listSpecs lists the specs of a suite without running it.
func listSpecs(ctx context.Context, binary, logs string, env []string) ([]spec, error) {
	report := filepath.Join(logs, "list.json")
	if err := ginkgo(ctx, binary, logs, "list", env, "-ginkgo.dry-run", "-ginkgo.json-report="+report); err != nil {
		return nil, err
	}
	read, err := readReport(report)
	if err != nil {
		return nil, err
	}
	var specs []spec
	for _, r := range read {
		for _, s := range r.SpecReports {
			if s.LeafNodeType == "It" {
				name := strings.Join(append(s.ContainerHierarchyTexts, s.LeafNodeText), " ")
				specs = append(specs, spec{strings.Join(strings.Fields(name), " "), filepath.Base(s.LeafNodeLocation.FileName), s.LeafNodeLocation.LineNumber})
			}
		}
	}
	return specs, nil
}

// run runs the spec in a separate process and records the result in r. It returns an error if the spec has no verdict.
func (s spec) run(ctx context.Context, binary, logs string, try int, timeout time.Duration, env []string, r *result) error {
	name := fmt.Sprintf("%s-%d.%d", strings.TrimSuffix(s.file, ".go"), s.line, try)
	report := filepath.Join(logs, name+".json")
	if err := os.RemoveAll(report); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, timeout+specGrace)
	defer cancel()
	// The process of a failing spec also returns an error. The report distinguishes the cases.
	runErr := ginkgo(bounded, binary, logs, name, env, "-ginkgo.v", fmt.Sprintf("-ginkgo.focus-file=/%s:%d", regexp.QuoteMeta(s.file), s.line),
		"-ginkgo.json-report="+report, "-ginkgo.timeout="+timeout.String(), "-ginkgo.grace-period=10s")
	if ctx.Err() != nil {
		return ctx.Err()
	}
	read, err := readReport(report)
	if err != nil {
		r.ours, r.why, r.took = fail, "no report: "+brief(errors.Join(runErr, err).Error()), timeout
		return nil
	}
	for _, one := range read {
		for _, found := range one.SpecReports {
			if found.LeafNodeType != "It" || filepath.Base(found.LeafNodeLocation.FileName) != s.file || found.LeafNodeLocation.LineNumber != s.line {
				continue
			}
			r.took = found.RunTime
			switch found.State {
			case "passed":
				r.ours = pass
			case "skipped", "pending":
				r.ours, r.why = skip, brief(found.Failure.Message)
			default:
				at := found.Failure.Location
				r.ours, r.why = fail, brief(fmt.Sprintf("%s:%d %s", filepath.Base(at.FileName), at.LineNumber, found.Failure.Message))
			}
			return nil
		}
	}
	return fmt.Errorf("%s has no verdict", report)
}

// ginkgo runs a suite with its output in a log.
func ginkgo(ctx context.Context, binary, logs, name string, env []string, args ...string) error {
	log, err := os.Create(filepath.Join(logs, name+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, binary, append([]string{"-ginkgo.no-color", "-ginkgo.seed=1"}, args...)...)
	cmd.Dir = logs
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w; see %s", err, log.Name())
	}
	return nil
}

func readReport(path string) (ginkgoReport, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var report ginkgoReport
	if err := json.Unmarshal(data, &report); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return report, nil
}

// brief returns the text as one line of bounded length.
func brief(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > whyLimit {
		text = strings.ToValidUTF8(text[:whyLimit], "") + "..."
	}
	return text
}
