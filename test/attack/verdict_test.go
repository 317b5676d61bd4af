// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"
)

// delays returns n equal delays for each kind of gang.
func delays(n int, each time.Duration) map[string][]time.Duration {
	of := map[string][]time.Duration{}
	for _, kind := range kinds {
		for range n {
			of[kind] = append(of[kind], each)
		}
	}
	return of
}

func TestAnAttackIsJudgedByTheBaselinesBeforeIt(t *testing.T) {
	const ms, mb = time.Millisecond, 1 << 20
	slowGPU := delays(5, 40*ms)
	slowGPU["gpu"] = []time.Duration{40 * ms, 1100 * ms, 1100 * ms}
	oneSlow := delays(5, 40*ms)
	oneSlow["cpu"][0] = 15 * time.Second
	unmeasured := delays(5, 40*ms)
	delete(unmeasured, "claim")
	for name, tc := range map[string]struct {
		attack round
		want   string // contained in the only fault; there is none if it is empty
	}{
		"as fast as without it":           {attack: round{delays: delays(5, 40*ms), usage: usage{memory: 100 * mb}}},
		"slower by a second at most":      {attack: round{delays: delays(5, 1040*ms), usage: usage{memory: 100 * mb}}},
		"twice the memory at most":        {attack: round{delays: delays(5, 40*ms), usage: usage{memory: 200 * mb}}},
		"one gang in five is slow":        {attack: round{delays: oneSlow, usage: usage{memory: 100 * mb}}},
		"slower by more than a second":    {attack: round{delays: slowGPU, usage: usage{memory: 100 * mb}}, want: "gpu gangs took 1.10 s"},
		"more than twice the memory":      {attack: round{delays: delays(5, 40*ms), usage: usage{memory: 201 * mb}}, want: "used 201 MB, 100 MB at first"},
		"a kind of gang was not measured": {attack: round{delays: unmeasured, usage: usage{memory: 100 * mb}}, want: "no claim gang"},
		"the API server is slow":          {attack: round{delays: delays(5, 40*ms), api: []time.Duration{2000 * ms}, usage: usage{memory: 100 * mb, writes: 400}, tally: tally{done: 90, refused: 10}}},
		"the scheduler writes much":       {attack: round{delays: delays(5, 40*ms), api: []time.Duration{900 * ms}, usage: usage{memory: 100 * mb, writes: 4000}, tally: tally{done: 100}}},
		"the scheduler writes much while the API server is slow": {attack: round{delays: delays(5, 40*ms), api: []time.Duration{2000 * ms}, usage: usage{memory: 100 * mb, writes: 401}, tally: tally{done: 90, refused: 10}},
			want: "the API server took 2.00 s for the victim's gangs in the median, while the scheduler wrote 401 times for 100 calls of the tenant"},
		"an effect lasts": {attack: round{delays: delays(5, 40*ms), lasting: []string{"queue x is Closed"}}, want: "queue x is Closed"},
	} {
		t.Run(name, func(t *testing.T) {
			var o outcome
			o.add(round{name: baseline, delays: delays(5, 40*ms), usage: usage{memory: 100 * mb}})
			tc.attack.name = "attack"
			found := o.add(tc.attack).faults
			if tc.want == "" && len(found) > 0 || tc.want != "" && (len(found) != 1 || !strings.Contains(found[0], tc.want)) {
				t.Errorf("faults are %q, want %q", found, tc.want)
			}
			if failed := o.failed() != nil; failed != (tc.want != "") {
				t.Errorf("the run failed: %v, want %v", failed, tc.want != "")
			}
		})
	}
}

func TestDelaysAreHeldAgainstTheLastBaselineAndMemoryAgainstTheFirst(t *testing.T) {
	var o outcome
	at := func(name string, each time.Duration, memory int64) []string {
		return o.add(round{name: name, delays: delays(3, each), usage: usage{memory: memory}}).faults
	}
	at(baseline, 100*time.Millisecond, 100)
	if found := at(baseline, 700*time.Millisecond, 150); len(found) > 0 {
		t.Errorf("a slower machine: %q", found)
	}
	if found := at("attack", 1600*time.Millisecond, 150); len(found) > 0 {
		t.Errorf("on the slower machine: %q", found)
	}
	if found := at("attack", 1600*time.Millisecond, 250); len(found) != 1 {
		t.Errorf("2.5 times the memory of the first baseline, 1.7 of the last: %q", found)
	}
	if found := at(baseline, 700*time.Millisecond, 250); len(found) != 1 {
		t.Errorf("memory left by attacks: %q", found)
	}
}

func TestASelfTestFailsWhereABreakageIsNotFoundOrIsTakenForAnother(t *testing.T) {
	broken := []attack{{name: "closed", finds: "is Closed"}}
	for name, tc := range map[string]struct {
		lasting []string
		fails   bool
	}{
		"found":             {lasting: []string{"queue x is Closed"}},
		"not found":         {fails: true},
		"taken for another": {lasting: []string{"pod x was stopped"}, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			var o outcome
			o.add(round{name: baseline, delays: delays(3, time.Millisecond)})
			o.add(round{name: "closed", delays: delays(3, time.Millisecond), lasting: tc.lasting})
			if err := o.unfound(broken); (err != nil) != tc.fails {
				t.Errorf("error %v, want one: %v", err, tc.fails)
			}
		})
	}
	var o outcome
	o.add(round{name: baseline, delays: delays(3, time.Millisecond), lasting: []string{"pod x was stopped"}})
	if o.unfound(broken) == nil {
		t.Error("a baseline with a fault passes")
	}
}

func TestARunFitsItsTime(t *testing.T) {
	for minutes, attacks := range map[float64]int{10: 41, 5: 20, 20: 41} {
		rounds := attacks + 1 + attacks/betweenBaselines
		all := setUpTime + time.Duration(rounds)*(windowOf(minutes, attacks)+besides)
		if most := time.Duration(minutes * float64(time.Minute)); all > most {
			t.Errorf("%d attacks in %g minutes are planned to take %s", attacks, minutes, all)
		}
	}
	if got := windowOf(0.1, 41); got != shortest {
		t.Errorf("a run without time has windows of %s, want %s", got, shortest)
	}
}
