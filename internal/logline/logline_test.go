// SPDX-License-Identifier: Apache-2.0

package logline

import (
	"bytes"
	"errors"
	"flag"
	"strings"
	"testing"

	"k8s.io/klog/v2"
)

func TestTextOfTenantsForgesNoLine(t *testing.T) {
	const forged = "E1231 23:59:59.000000       1 forged.go:1] FORGED"
	const text = "value\r\n" + forged + "\n\x1b[31m" + forged + "\n"
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	if err := flags.Parse([]string{"-logtostderr=false", "-alsologtostderr=false", "-stderrthreshold=FATAL"}); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	klog.SetOutput(&log)
	klog.SetLogFilter(Filter{})
	for name, write := range map[string]func(){
		"Info":               func() { klog.Info(text) },
		"Warningf":           func() { klog.Warningf("invalid %s=%s", "key", text) },
		"Errorf of an error": func() { klog.Errorf("failed: %v", errors.New(text)) },
		"ErrorS":             func() { klog.ErrorS(errors.New("no"), "message", "value", text) },
		"InfoS":              func() { klog.InfoS(text, "error", errors.New(text)) },
	} {
		t.Run(name, func(t *testing.T) {
			log.Reset()
			write()
			klog.Flush()
			if !strings.Contains(log.String(), "FORGED") {
				t.Fatalf("the text is not in the log: %q", log.String())
			}
			if strings.ContainsAny(log.String(), "\x1b\r") {
				t.Errorf("control characters in the log: %q", log.String())
			}
			for line := range strings.Lines(log.String()) {
				if strings.HasPrefix(line, "E1231") {
					t.Errorf("a forged line in the log:\n%s", log.String())
				}
			}
		})
	}
	args := []any{text, 1}
	if cleaned(args); args[0] != text {
		t.Error("the caller's arguments are changed")
	}
}
