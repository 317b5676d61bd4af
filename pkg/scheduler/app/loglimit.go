// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// A line of the source may log so many warnings and errors in so much time. Upstream logs one for each object of a tenant's
// that it cannot read, and again for each change of it.
const (
	linesOfAPlace = 100
	logPeriod     = time.Minute
)

// logLimit passes on what klog writes, but of warnings and errors no more than the first few from each place in the source
// in each period, and then says how many it has left out.
type logLimit struct {
	out io.Writer
	now func() time.Time

	mu     sync.Mutex
	since  time.Time
	places map[string]int
}

// limitLog has klog, whose flags these are, write to stderr through a limit.
func limitLog(flags *flag.FlagSet) error {
	for _, set := range [][2]string{{"logtostderr", "false"}, {"one_output", "true"}, {"stderrthreshold", "FATAL"}} {
		if err := flags.Set(set[0], set[1]); err != nil {
			return fmt.Errorf("setting the log's flag %s: %w", set[0], err)
		}
	}
	klog.SetOutput(&logLimit{out: os.Stderr, now: time.Now, places: map[string]int{}})
	return nil
}

// Write passes a line on, or leaves it out.
func (l *logLimit) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.now(); now.Sub(l.since) >= logPeriod {
		if err := l.tellLeftOut(); err != nil {
			return 0, err
		}
		l.since = now
		clear(l.places)
	}
	if place := placeOf(line); place != "" {
		if l.places[place]++; l.places[place] > linesOfAPlace {
			return len(line), nil
		}
	}
	return l.out.Write(line)
}

func (l *logLimit) tellLeftOut() error {
	for place, lines := range l.places {
		if more := lines - linesOfAPlace; more > 0 {
			if _, err := fmt.Fprintf(l.out, "%d more lines logged at %s since %s are left out\n", more, place, l.since.Format(time.TimeOnly)); err != nil {
				return err
			}
		}
	}
	return nil
}

// placeOf is where in the source a warning or an error was logged, as in "E1122 01:08:46.766775   25416 cache.go:92] it failed";
// empty for all else.
func placeOf(line []byte) string {
	if len(line) == 0 || line[0] != 'E' && line[0] != 'W' {
		return ""
	}
	head, _, ok := bytes.Cut(line, []byte("] "))
	if !ok {
		return ""
	}
	return string(head[bytes.LastIndexByte(head, ' ')+1:])
}
