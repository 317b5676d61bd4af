// SPDX-License-Identifier: Apache-2.0

package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// parse returns the options for the arguments.
func parse(t *testing.T, args ...string) *Options {
	t.Helper()
	opts := &Options{ServerOption: options.NewServerOption(), Plugins: PluginSpecs()}
	fs := pflag.NewFlagSet("vc-scheduler", pflag.ContinueOnError)
	opts.AddFlags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return opts
}

// TestFlagsAreUpstreams checks that every flag of upstream's scheduler exists with its default, except for health,
// which is on.
func TestFlagsAreUpstreams(t *testing.T) {
	upstream, ours := pflag.NewFlagSet("upstream", pflag.ContinueOnError), pflag.NewFlagSet("ours", pflag.ContinueOnError)
	options.NewServerOption().AddFlags(upstream)
	(&Options{ServerOption: options.NewServerOption()}).AddFlags(ours)
	type flag struct{ Shorthand, Type, Default, Value string }
	read := func(fs *pflag.FlagSet) map[string]flag {
		flags := map[string]flag{}
		fs.VisitAll(func(f *pflag.Flag) { flags[f.Name] = flag{f.Shorthand, f.Value.Type(), f.DefValue, f.Value.String()} })
		return flags
	}
	want, got := read(upstream), read(ours)
	if len(want) < 30 {
		t.Fatalf("upstream has %d flags, fewer than expected", len(want))
	}
	health := want["enable-healthz"]
	health.Default, health.Value = "true", "true"
	want["enable-healthz"] = health
	var added []string
	for name := range got {
		if _, ok := want[name]; !ok {
			added = append(added, name)
			delete(got, name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("flags (-upstream +ours):\n%s", diff)
	}
	if len(added) != 2 {
		t.Errorf("flags of our own: %v, want validate-conf and drain-grace-period", added)
	}
	if parse(t, "--enable-healthz=false").EnableHealthz {
		t.Error("health cannot be switched off")
	}
}

// TestFlagsOfUpstreamDeployments checks that flags that upstream accepts and uses are accepted.
func TestFlagsOfUpstreamDeployments(t *testing.T) {
	for _, flags := range [][]string{
		nil,
		{"--schedule-period=1s", "--node-worker-threads=20", "--default-queue=default", "--percentage-nodes-to-find=-1", "--minimum-percentage-nodes-to-find=100"},
		{"--kube-api-qps=-1", "--kube-api-burst=0"},
		{"--node-selector=volcano.sh/role:train,volcano.sh/role:serving", "--scheduler-sharding-mode=soft"},
		{"--drain-grace-period=0", "--resync-period=0"},
	} {
		if err := parse(t, flags...).check(); err != nil {
			t.Errorf("%q: %v", flags, err)
		}
	}
}

func TestValidateConf(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"a good one":         {text: "actions: \"allocate\"\ntiers:\n- plugins:\n  - name: gang\n"},
		"a misspelt action":  {text: "actions: \"alocate\"\ntiers:\n- plugins:\n  - name: gang\n", want: "allocate"},
		"a plugin of ours":   {text: "actions: \"allocate\"\ntiers:\n- plugins:\n  - name: ibcluster\n"},
		"no policy":          {text: "actions: \"allocate\"\ntiers:\n- plugins:\n  - name: bindpolicy\n", want: "line 4: plugin \"bindpolicy\" does nothing without argument \"bindpolicy.policies\""},
		"a misspelt plugin":  {text: "actions: \"allocate\"\ntiers:\n- plugins:\n  - name: bindpolcy\n", want: "bindpolicy"},
		"an unknown setting": {text: "actions: \"allocate\"\ntiers:\n- plugins:\n  - name: gang\n    enablePrebind: false\n", want: "enablePreBind"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "scheduler.conf")
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			err := validate(parse(t, "--validate-conf", path))
			if (err == nil) != (tt.want == "") || (err != nil && !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("validation returns %v, want an error that names %q", err, tt.want)
			}
		})
	}
}

func TestHasWork(t *testing.T) {
	task := func(status api.TaskStatus) []api.TaskStatus { return []api.TaskStatus{status} }
	tests := map[string]struct {
		tasks []api.TaskStatus
		phase scheduling.PodGroupPhase
		want  bool
	}{
		"a running gang":                        {tasks: task(api.Running), phase: scheduling.PodGroupRunning},
		"a gang being bound":                    {tasks: task(api.Binding), phase: scheduling.PodGroupRunning},
		"a completed gang":                      {tasks: task(api.Succeeded), phase: scheduling.PodGroupCompleted},
		"a waiting task":                        {tasks: task(api.Pending), phase: scheduling.PodGroupRunning, want: true},
		"a task that waits for room being made": {tasks: task(api.Pipelined), phase: scheduling.PodGroupRunning, want: true},
		"a task that leaves":                    {tasks: task(api.Releasing), phase: scheduling.PodGroupRunning, want: true},
		"a gang that is not admitted":           {phase: scheduling.PodGroupPending, want: true},
		"a gang that is admitted":               {phase: scheduling.PodGroupInqueue, want: true},
		"a gang in doubt":                       {phase: scheduling.PodGroupUnknown, want: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			job := api.NewJobInfo("ns/g")
			job.PodGroup = &api.PodGroup{PodGroup: scheduling.PodGroup{Status: scheduling.PodGroupStatus{Phase: tt.phase}}}
			for _, status := range tt.tasks {
				job.TaskStatusIndex[status] = api.TasksMap{"t": &api.TaskInfo{}}
			}
			if got := hasWork(map[api.JobID]*api.JobInfo{job.UID: job}); got != tt.want {
				t.Errorf("hasWork is %v, want %v", got, tt.want)
			}
		})
	}
}

// TestACostLimitInQuotesIsTaken checks that a cost limit in quotes is accepted. It is inside a list, where only the
// plugin knows which values are numbers.
func TestACostLimitInQuotesIsTaken(t *testing.T) {
	cfg := loaded(t, `
actions: allocate
tiers:
- plugins:
  - name: bindpolicy
    arguments:
      bindpolicy.policies: [{name: "1", expression: "true", costLimit: "1000"}]
`)
	want := `line 7: argument "bindpolicy.policies[0].costLimit" of plugin "bindpolicy" is taken as int 1000; write it without quotes`
	if len(cfg.Warnings) != 1 || cfg.Warnings[0].Error() != want {
		t.Errorf("warnings %v, want %s", cfg.Warnings, want)
	}
}
