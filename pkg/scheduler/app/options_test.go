// SPDX-License-Identifier: Apache-2.0

package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	componentbaseconfig "k8s.io/component-base/config"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"
	commonutil "volcano.sh/volcano/pkg/util"
)

// parse makes options of the arguments.
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

// TestFlagsAreUpstreams: every flag of upstream's scheduler is there with its default, but for health, which is on.
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
		t.Fatalf("upstream has %d flags, fewer than it is known to have", len(want))
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

// TestImpossibleFlags: each of these was taken without a word, and then the scheduler hung, waited for ever or did nothing.
func TestImpossibleFlags(t *testing.T) {
	tests := map[string]struct{ flag, want string }{
		"no default queue":                {"--default-queue=", `--default-queue is ""; it must be the name of a queue: `},
		"a default queue that is no name": {"--default-queue=Q_1", `--default-queue is "Q_1"`},
		"no node workers":                 {"--node-worker-threads=0", `--node-worker-threads is 0; it must be between 1 and 1000`},
		"millions of node workers":        {"--node-worker-threads=4000000", `--node-worker-threads is 4000000; it must be between 1 and 1000`},
		"no period":                       {"--schedule-period=0", `--schedule-period is 0s; it must be longer than 0`},
		"a period before now":             {"--schedule-period=-1s", `--schedule-period is -1s; it must be longer than 0`},
		"a resync before now":             {"--resync-period=-1s", `--resync-period is -1s; it must be 0 or longer`},
		"a drain before now":              {"--drain-grace-period=-1s", `--drain-grace-period is -1s; it must be 0 or longer`},
		"no scheduler name":               {"--scheduler-name=", `--scheduler-name is ""; it must be the schedulerName of the pods to schedule`},
		"a rate of nothing":               {"--kube-api-qps=0", `--kube-api-qps is 0; it must be over 0, or below 0 for no limit`},
		"a rate that is none":             {"--kube-api-qps=NaN", `--kube-api-qps is NaN; it must be over 0, or below 0 for no limit`},
		"no burst":                        {"--kube-api-burst=0", `--kube-api-burst is 0; it must be 1 or more`},
		"a negative burst":                {"--kube-api-burst=-5", `--kube-api-burst is -5; it must be 1 or more`},
		"fewer nodes than none":           {"--minimum-feasible-nodes=-1", `--minimum-feasible-nodes is -1; it must be 0 or more`},
		"a negative share of nodes":       {"--minimum-percentage-nodes-to-find=-1", `--minimum-percentage-nodes-to-find is -1; it must be between 0 and 100`},
		"more than all nodes, at least":   {"--minimum-percentage-nodes-to-find=101", `--minimum-percentage-nodes-to-find is 101; it must be between 0 and 100`},
		"more than all nodes":             {"--percentage-nodes-to-find=101", `--percentage-nodes-to-find is 101; it must be 100 or less`},
		"a selector without a value":      {"--node-selector=role", `--node-selector is "role"; it must be a label such as volcano.sh/role:train`},
		"an unknown sharding mode":        {"--scheduler-sharding-mode=soggy", `--scheduler-sharding-mode is "soggy"; it must be none, hard or soft`},
		"shared objects":                  {"--plugins-dir=/nowhere", `--plugins-dir is "/nowhere"; it must not be given: shared objects cannot be loaded by this scheduler. Link your plugins into a build of your own, whose main calls app.Main with their specs (docs/prebind.md)`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := parse(t, tt.flag).check()
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("%s: error %v, want %s", tt.flag, err, tt.want)
			}
		})
	}
}

// TestImpossibleLease: the API server refuses a lease of such a name for as long as it is asked, and the elector never tires;
// locks of other kinds are gone from Kubernetes.
func TestImpossibleLease(t *testing.T) {
	tests := map[string]struct {
		change func(*componentbaseconfig.LeaderElectionConfiguration)
		want   string
	}{
		"upstream's": {change: func(*componentbaseconfig.LeaderElectionConfiguration) {}},
		"a name that is none": {
			change: func(c *componentbaseconfig.LeaderElectionConfiguration) { c.ResourceName = "Vol_1" },
			want:   `--leader-elect-resource-name is "Vol_1"; it must be the name of a lease: `,
		},
		"another kind of lock": {
			change: func(c *componentbaseconfig.LeaderElectionConfiguration) { c.ResourceLock = "configmaps" },
			want:   `--leader-elect-resource-lock is "configmaps"; it must be leases`,
		},
		"another kind of lock that nobody takes": {change: func(c *componentbaseconfig.LeaderElectionConfiguration) {
			c.ResourceLock, c.LeaderElect = "configmaps", false
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			opts := parse(t)
			commonutil.LeaderElectionDefault(&opts.LeaderElection)
			opts.LeaderElection.ResourceName = "vc-scheduler"
			tt.change(&opts.LeaderElection)
			err := opts.check()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)) {
				t.Errorf("error %v, want %s", err, tt.want)
			}
		})
	}
}

// TestFlagsOfUpstreamDeployments: what upstream takes, and does something with, is taken.
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

// TestArgumentsOfNoFlag: the second file was not looked at, and --leader-elect stayed on.
func TestArgumentsOfNoFlag(t *testing.T) {
	const hint = " belongs to no flag; give a flag its value with =, as in --leader-elect=false, and --validate-conf one file"
	tests := map[string]struct {
		args []string
		want string
	}{
		"two files":              {args: []string{"--validate-conf", "good.conf", "bad.conf", "worse.conf"}, want: `argument "bad.conf"` + hint},
		"a switch and its value": {args: []string{"--enable-healthz", "false"}, want: `argument "false"` + hint},
		"a redirection":          {args: []string{"-v=3", "2>&1", "extra"}, want: `argument "extra"` + hint},
		"upstream's manifests":   {args: []string{"--enable-healthz=true", "2>&1"}},
		"none":                   {},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			opts := &Options{ServerOption: options.NewServerOption()}
			fs := pflag.NewFlagSet("vc-scheduler", pflag.ContinueOnError)
			opts.AddFlags(fs)
			fs.IntP("verbosity", "v", 0, "")
			if err := fs.Parse(tt.args); err != nil {
				t.Fatal(err)
			}
			got := ""
			if err := checkPositional(fs.Args()); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
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
				t.Errorf("validation says %v, want an error that names %q", err, tt.want)
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
		"a gang that is not let in":             {phase: scheduling.PodGroupPending, want: true},
		"a gang that is let in":                 {phase: scheduling.PodGroupInqueue, want: true},
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

// TestACostLimitInQuotesIsTaken: it is within a list, where only the plugin knows what is a number.
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
