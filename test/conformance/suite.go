// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// suite is one of upstream's end-to-end suites.
type suite struct {
	name string
	// fabric adds the nodes in HyperNodes on which the suite places gangs.
	fabric bool
	// schedulerArgs are the scheduler's arguments in upstream's CI for this suite.
	schedulerArgs []string
	specTimeout   time.Duration
}

var suites = map[string]suite{
	"hypernode":        {name: "hypernode", fabric: true, specTimeout: 5 * time.Minute},
	"schedulingaction": {name: "schedulingaction", specTimeout: 5 * time.Minute},
	// One of its specs has a wait of five minutes.
	"schedulingbase": {
		name: "schedulingbase", specTimeout: 7 * time.Minute,
		schedulerArgs: []string{"--ignored-provisioners=kubernetes.io/no-provisioner"},
	},
}

func suiteNames() []string { return slices.Sorted(maps.Keys(suites)) }

const (
	suiteModule = "conformance/suites"
	utilPackage = "test/e2e/util"
	// scaleVariable is the environment variable with the factor for the suites' wait times of up to ten minutes. A
	// failing spec waits for the whole time. Below 0.3 the garbage collector of pods, which one of the specs needs, is
	// too slow. A spec whose failure is accepted need not wait long.
	scaleVariable, usualScale, acceptedScale = "CONFORMANCE_WAIT_SCALE", "0.3", "0.1"
	// usualTries is how often a failing spec is run.
	usualTries = 2
	// needsKubelet is the beginning of the names of specs that inspect mounts on a node.
	needsKubelet = "Volume Binding Test "
)

// scaledWaits is a file for upstream's helper package, in which the limits are variables.
const scaledWaits = `package util

import (
	"os"
	"strconv"
	"time"
)

func init() {
	scale, err := strconv.ParseFloat(os.Getenv("` + scaleVariable + `"), 64)
	if err != nil {
		panic(err)
	}
	for _, limit := range []*time.Duration{&OneMinute, &TwoMinute, &FiveMinute, &TenMinute} {
		*limit = time.Duration(scale * float64(*limit))
	}
}
`

// build compiles the suite and returns the binary.
func (s suite) build(ctx context.Context, work string, source upstream) (string, error) {
	m, err := newModule(ctx, filepath.Join(work, "suites"), source.dir, "-module="+suiteModule,
		"-replace="+apisModule+"="+apisModule+"@"+source.apis, "-require="+volcanoModule+"@"+source.version)
	if err != nil {
		return "", err
	}
	edit := func(_ string, src []byte) ([]byte, error) {
		return bytes.ReplaceAll(src, []byte(`"`+volcanoModule+"/"+utilPackage+`"`), []byte(`"`+suiteModule+`/util"`)), nil
	}
	err = errors.Join(
		m.add(filepath.Join(source.dir, utilPackage), "util", edit),
		m.write("util/conformance_waits.go", []byte(scaledWaits)),
		m.add(filepath.Join(source.dir, "test/e2e", s.name), s.name, edit),
	)
	if err != nil {
		return "", err
	}
	binary := filepath.Join(work, "suites", s.name+".test")
	return binary, m.compile(ctx, s.name, binary)
}

// runSuite runs the specs one after the other and restores the cluster after each.
func runSuite(ctx context.Context, opts options, source upstream, s suite, accepted map[string]string, out io.Writer, keep func(result)) (err error) {
	began := time.Now()
	fmt.Fprintf(out, "%s: building (2 minutes the first time)\n", s.name)
	binary, err := s.build(ctx, opts.work, source)
	if err != nil {
		return err
	}
	logs := filepath.Join(opts.work, "logs", s.name)
	w, err := startWorld(ctx, opts, source, s, logs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	specs, err := listSpecs(ctx, binary, logs, w.env())
	if err != nil {
		return err
	}
	specs = slices.DeleteFunc(specs, func(sp spec) bool { return !opts.focus.MatchString(sp.name) })
	fmt.Fprintf(out, "%s: %d specs (%.0f s to build and to start)\n", s.name, len(specs), time.Since(began).Seconds())
	for _, sp := range specs {
		r := result{part: s.name, name: sp.name}
		if strings.HasPrefix(sp.name, needsKubelet) {
			r.ours, r.why = notRun, "it needs a kubelet: it looks at mounts on the node"
			keep(r)
			continue
		}
		tries, scale := usualTries, usualScale
		if accepted[r.key()] != "" {
			tries, scale = 1, acceptedScale
		}
		err := judge(&r, tries, func(try int) error {
			if err := w.attempt(ctx, binary, sp, try, scale, &r); err != nil {
				return fmt.Errorf("%s: %w", sp.name, err)
			}
			fmt.Fprintf(out, "%-5s %5.1f s  %s: %s\n", r.ours, r.took.Seconds(), s.name, sp.name)
			return nil
		})
		if err != nil {
			return err
		}
		keep(r)
	}
	return nil
}

// judge retries a failing spec, which shows whether it always fails or is flaky.
func judge(r *result, tries int, attempt func(try int) error) error {
	var failures []string
	for try := 1; try <= tries; try++ {
		if err := attempt(try); err != nil {
			return err
		}
		if r.ours != fail {
			break
		}
		failures = append(failures, r.why)
	}
	if r.ours == pass && len(failures) > 0 {
		r.ours, r.why = flaky, "it passed when it was tried again; before: "+strings.Join(failures, " / ")
	}
	return nil
}
