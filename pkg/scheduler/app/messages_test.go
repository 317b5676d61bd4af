// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	componentbaseconfig "k8s.io/component-base/config"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	commonutil "volcano.sh/volcano/pkg/util"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/config"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/debug"
)

// TestMessages compares the descriptions of this scheduler's own flags, and the messages about its lease, its loop
// and its debug endpoints.
func TestMessages(t *testing.T) {
	fs := pflag.NewFlagSet("ours", pflag.ContinueOnError)
	(&Options{ServerOption: options.NewServerOption()}).AddFlags(fs)
	usage := func(flag string) string { return fs.Lookup(flag).Usage }
	outside := httptest.NewRecorder()
	gangsOnLoopback(http.NotFoundHandler()).ServeHTTP(outside, httptest.NewRequest(http.MethodGet, "/debug/gangs", nil))
	follows := httptest.NewRecorder()
	showGangs(follows, httptest.NewRequest(http.MethodGet, "/debug/gangs", nil), nil)
	limit := httptest.NewRecorder()
	showGangs(limit, httptest.NewRequest(http.MethodGet, "/debug/gangs?limit=all-of-them-please-and-more", nil), &debug.View{})
	got := map[string]string{
		"an invalid limit":     strings.TrimSpace(limit.Body.String()),
		"--validate-conf":      usage("validate-conf"),
		"--drain-grace-period": usage("drain-grace-period"),
		"--enable-healthz":     usage("enable-healthz"),
		"no lease":             fmt.Sprint((&fence{}).closed()),
		"the lease is lost":    errLeaseLost.Error(),
		"the loop hangs":       errHung.Error(),
		"all cycles panic":     errPanicking.Error(),
		"not on loopback":      strings.TrimSpace(outside.Body.String()),
		"not the leader":       strings.TrimSpace(follows.Body.String()),
		"listen address":       listenError("listen-address", "nowhere"),
	}
	want := map[string]string{
		"an invalid limit":     `limit: found "all-of-them-please-a", want a number from 1 to 5000`,
		"--validate-conf":      "Validate this scheduler configuration file, print its errors and exit: 0 if it is valid, 1 otherwise",
		"--drain-grace-period": "How long bind transactions in flight may take to end after SIGTERM. Members not being bound by then are rolled back, which may take 20 s more. Set the pod's terminationGracePeriodSeconds 30 s higher",
		"--enable-healthz":     "Enable the health check; it is true by default",
		"no lease":             "not sent: this scheduler does not hold the leader lease",
		"the lease is lost":    "the leader lease was lost; the next leader recovers bind transactions in flight",
		"the loop hangs":       "the scheduling loop hangs; releasing the lease, the next leader recovers bind transactions in flight",
		"all cycles panic":     "every scheduling cycle panics; releasing the lease",
		"not on loopback":      "/debug/gangs is served on the loopback address only; use kubectl port-forward",
		"not the leader":       "this scheduler is not the leader; ask the leader",
		"listen address":       `--listen-address is "nowhere", not host:port: address nowhere: missing port in address`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

// TestMessagesOfHealth compares the answers of the health check.
func TestMessagesOfHealth(t *testing.T) {
	health := func(story func(w *watchdog)) (text string) {
		synctest.Test(t, func(*testing.T) {
			w := newWatchdog()
			story(w)
			_, text = healthOf(w)
		})
		return text
	}
	got := map[string]string{
		"a cycle hangs": health(func(w *watchdog) {
			w.start()
			time.Sleep(cycleLimit + time.Second)
		}),
		"all cycles panic": health(func(w *watchdog) {
			w.start()
			for range 3 {
				w.panicked("oh no")
				time.Sleep(panicLimit)
			}
		}),
		"it waits": health(func(w *watchdog) {
			s := &startup{}
			s.set(func() string { return "the lease" })
			w.waits = s.waitsFor
			time.Sleep(time.Minute)
		}),
	}
	want := map[string]string{
		"a cycle hangs":    "scheduling loop has made no progress for 2m1s",
		"all cycles panic": "the last 3 scheduling cycles panicked, for 1m30s: oh no",
		"it waits":         "ok: waiting for the lease, for 1m0s",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

// TestMessagesOfAStaleLease compares the error of a write when the lease may have passed to another scheduler.
func TestMessagesOfAStaleLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fence{term: 10 * time.Second}
		f.held(now())
		time.Sleep(12500 * time.Millisecond)
		const want = "not sent: the leader lease was last renewed 12.5s ago, another scheduler may lead"
		if err := f.closed(); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	})
}

// TestMessagesOfReloads compares the events on the lease after a change of the configuration file.
func TestMessagesOfReloads(t *testing.T) {
	cluster := gangOf(1)
	s := newTestScheduler(t, cluster, builtIn(t, "allocate"))
	p := &process{opts: s.opts, metrics: s.metrics, leading: s}
	p.opts.LeaderElection.ResourceNamespace, p.opts.LeaderElection.ResourceName = "volcano-system", "vc-scheduler"
	cluster.Events.Take()
	p.reloaded(nil, errors.New(`actions: found "alocate", want allocate`))
	p.reloaded(&config.Config{Hash: "0123456789abcdef"}, nil)
	var got []string
	eventually(t, func() bool {
		got = append(got, cluster.Events.Take()...)
		return len(got) >= 2
	})
	slices.Sort(got)
	want := []string{
		"Normal ConfigReloaded vc-scheduler: new configuration in force (sha256 0123456789ab)",
		`Warning ConfigRejected vc-scheduler: rejected the new configuration, keeping the current one: actions: found "alocate", want allocate`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func listenError(flag, address string) string {
	_, err := listenAddress(flag, address)
	return fmt.Sprint(err)
}

// nameRule is Kubernetes' message about names of objects.
const nameRule = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`

// TestImpossibleFlags checks that impossible flags are rejected. Each of these used to be accepted silently, and then
// the scheduler hung, waited for ever or did nothing.
func TestImpossibleFlags(t *testing.T) {
	tests := map[string]struct{ flag, want string }{
		"no default queue":                {"--default-queue=", `--default-queue is ""; it must be the name of a queue: ` + nameRule},
		"a default queue that is no name": {"--default-queue=Q_1", `--default-queue is "Q_1"; it must be the name of a queue: ` + nameRule},
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
		"a shard without a name":          {"--scheduler-sharding-mode=hard --scheduler-sharding-name=", `--scheduler-sharding-name is ""; it must be the name of a NodeShard unless --scheduler-sharding-mode is none`},
		"shared objects":                  {"--plugins-dir=/nowhere", `--plugins-dir is "/nowhere"; it must not be given: shared objects cannot be loaded by this scheduler. Link your plugins into a build of your own, whose main calls app.Main with their specs (docs/prebind.md)`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := parse(t, strings.Fields(tt.flag)...).check()
			if diff := cmp.Diff(tt.want, fmt.Sprint(err)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.flag, diff)
			}
		})
	}
}

// TestImpossibleLease checks that flags of an impossible lease are rejected. The API server rejects a lease with an
// invalid name or namespace every time, and the elector would retry forever. Kubernetes no longer supports locks other
// than leases.
func TestImpossibleLease(t *testing.T) {
	tests := map[string]struct {
		change func(*componentbaseconfig.LeaderElectionConfiguration)
		want   string
	}{
		"upstream's": {change: func(*componentbaseconfig.LeaderElectionConfiguration) {}},
		"a name that is none": {
			change: func(c *componentbaseconfig.LeaderElectionConfiguration) { c.ResourceName = "Vol_1" },
			want:   `--leader-elect-resource-name is "Vol_1"; it must be the name of a lease: ` + nameRule,
		},
		"a namespace that is none": {
			change: func(c *componentbaseconfig.LeaderElectionConfiguration) { c.ResourceNamespace = "Volcano_1" },
			want:   `--leader-elect-resource-namespace is "Volcano_1"; it must be the name of a namespace`,
		},
		"another kind of lock": {
			change: func(c *componentbaseconfig.LeaderElectionConfiguration) { c.ResourceLock = "configmaps" },
			want:   `--leader-elect-resource-lock is "configmaps"; it must be leases`,
		},
		"another kind of lock without leader election": {change: func(c *componentbaseconfig.LeaderElectionConfiguration) {
			c.ResourceLock, c.LeaderElect = "configmaps", false
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			opts := parse(t)
			commonutil.LeaderElectionDefault(&opts.LeaderElection)
			opts.LeaderElection.ResourceName = "vc-scheduler"
			tt.change(&opts.LeaderElection)
			got := ""
			if err := opts.check(); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

// TestArgumentsOfNoFlag checks that positional arguments are rejected. They used to be ignored: with
// "--validate-conf a b" file b was not checked, and "--leader-elect false" left leader election on.
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
