// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"math/rand"
	"net/http"
	"os"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
	"github.com/volcano-prebind/volcano-prebind/internal/controlplane/faultproxy"
	"github.com/volcano-prebind/volcano-prebind/test/e2e/control"
)

const (
	// volumeRounds is the environment variable with the number of rounds of faults.
	volumeRounds        = "E2E_VOLUME_ROUNDS"
	defaultVolumeRounds = 3
	// blows is the number of faults in a round, with blowPause between them.
	blows     = 6
	blowPause = 700 * time.Millisecond
	// recoveryTime is the time limit for recovery once the faults have ended.
	recoveryTime = time.Minute
)

var _ = Describe("Under random faults while volumes are made", func() {
	It("round after round ends with nothing selected or reserved without a pod, and every gang whole or waiting with a reason", func(ctx SpecContext) {
		rounds := defaultVolumeRounds
		if text := os.Getenv(volumeRounds); text != "" {
			var err error
			rounds, err = strconv.Atoi(text)
			Expect(err).NotTo(HaveOccurred(), volumeRounds)
		}
		b := &breaker{env: newVolumeEnv(ctx, "vol-rounds", 3, 3, 4), nodes: 10, random: rand.New(rand.NewSource(GinkgoRandomSeed()))}
		b.proxy = startProxy()
		b.live(ctx)
		for round := range rounds {
			began := time.Now()
			told := fmt.Sprintf("round %d of seed %d: ", round, GinkgoRandomSeed()) + b.round(ctx, fmt.Sprintf("r%02d", round))
			told += fmt.Sprintf(", %v", time.Since(began).Round(100*time.Millisecond))
			AddReportEntry(told)
			GinkgoWriter.Println(told)
		}
	})
})

// breaker causes random faults in a testEnv.
type breaker struct {
	env       volumeEnv
	nodes     int
	random    *rand.Rand
	proxy     *faultproxy.Proxy
	scheduler *controlplane.Scheduler
	kills     int
}

// live starts the scheduler.
func (b *breaker) live(ctx context.Context) {
	GinkgoHelper()
	b.scheduler = b.env.schedule(ctx, shortBinding, controlplane.SchedulerOptions{Server: b.proxy.URL()})
}

// round places gangs of every kind while faults happen, and returns a summary of the faults and the gangs.
func (b *breaker) round(ctx context.Context, name string) string {
	GinkgoHelper()
	b.kills = 0
	faults := b.faults()
	b.misorder()
	gangs, whole := b.gangs(ctx, name)
	for range blows {
		b.strike(ctx, gangs)
		pause(ctx, blowPause)
	}
	hits := 0
	for _, fault := range faults {
		hits += fault.Hits()
		fault.Remove()
	}
	b.obey()

	for _, g := range gangs {
		b.env.touch(ctx, g)
	}
	Eventually(func() []string {
		wrong := b.env.unsettled(ctx, gangs...)
		for _, g := range whole {
			if n := b.env.seen.bound(g); n < g.size {
				wrong = append(wrong, fmt.Sprintf("%d of %d pods of gang %s are bound", n, g.size, g.name))
			}
		}
		return wrong
	}, recoveryTime).WithPolling(pollVolumes).Should(BeEmpty(), name)
	told := fmt.Sprintf("%d faults at the proxy, %d kills", hits, b.kills)
	for _, g := range gangs {
		told += fmt.Sprintf(", %s %d/%d", g.name, b.env.seen.bound(g), g.size)
		if condition := b.env.seen.unschedulable(g); condition != nil && b.env.seen.bound(g) < g.size {
			told += fmt.Sprintf(" (%s: %s)", condition.Reason, condition.Message)
		}
	}
	b.clear(ctx, gangs)
	return told
}

// gangs submits one gang of each kind, and local volumes for the gangs that need them. The gangs in the second result
// can be complete wherever their volumes were created and bound. The others may have volumes that no node, or no
// cluster, reaches together.
func (b *breaker) gangs(ctx context.Context, name string) (all, whole []gang) {
	GinkgoHelper()
	for i := range b.nodes {
		b.env.addVolume(ctx, fmt.Sprintf("%s-%d", name, i), b.env.node(i))
	}
	const small = "100m" // Any node has room for all pods: only volumes keep gangs from a node.
	clustered := required(withClaims(gang{name: name + "-clustered", size: 4, min: 4, cpu: small}))
	anywhere := withClaims(gang{name: name + "-anywhere", size: 4, min: 4, cpu: small})
	local := withClaims(gang{name: name + "-local", size: 4, min: 4, cpu: small})
	shared := withClaim(gang{name: name + "-shared", size: 3, min: 3, cpu: small}, func(int) string { return name + "-shared" })
	both := withClaims(gang{name: name + "-both", size: 2, min: 2, cpu: small})
	b.env.addClaims(ctx, b.env.made(), append(append(clustered.pods(), anywhere.pods()...), both.pods()...)...)
	b.env.addClaims(ctx, b.env.made(), name+"-shared")
	b.env.addClaims(ctx, b.env.local(), local.pods()...)
	second := func(i int) string { return both.member(i) + "-local" }
	b.env.addClaims(ctx, b.env.local(), second(0), second(1))
	own := both.pod
	both.pod = func(i int, pod *corev1.Pod) {
		own(i, pod)
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: second(i)},
		}})
	}
	all = []gang{clustered, anywhere, local, shared, both}
	for _, g := range all {
		b.env.submit(ctx, g)
	}
	return all, []gang{anywhere, local, shared}
}

// faults breaks a tenth of the scheduler's calls for objects of the namespace, and more of the calls for volumes.
func (b *breaker) faults() []*faultproxy.ActiveRule {
	rules := randomFaults(b.env.name, b.proxy)
	for _, action := range []faultproxy.Action{
		faultproxy.Answer(http.StatusInternalServerError, 0), faultproxy.Answer(http.StatusConflict, 0), faultproxy.DropBefore(), faultproxy.DropAfter(),
	} {
		rules = append(rules, b.proxy.Add(faultproxy.Rule{Path: "/persistentvolumes/", Probability: 0.05, Action: action}))
	}
	return rules
}

// misorder gives the provisioner new orders to misbehave on some nodes.
func (b *breaker) misorder() {
	GinkgoHelper()
	b.obey()
	for i := range b.nodes {
		switch b.random.Intn(6) {
		case 0:
			b.env.plugins.order(control.Provisioner, b.env.node(i), control.Fail)
		case 1:
			b.env.plugins.order(control.Provisioner, b.env.node(i), control.Hang)
		case 2:
			b.env.plugins.order(control.Provisioner, b.env.node(i), control.Reschedule)
		}
	}
}

// obey makes the provisioner create all volumes.
func (b *breaker) obey() {
	GinkgoHelper()
	for i := range b.nodes {
		for _, verb := range []control.Verb{control.Fail, control.Hang, control.Reschedule} {
			b.env.plugins.revoke(control.Provisioner, b.env.node(i), verb)
		}
	}
}

// strike causes one of the faults that happen to clusters.
func (b *breaker) strike(ctx context.Context, gangs []gang) {
	GinkgoHelper()
	switch b.random.Intn(6) {
	case 0:
		Expect(b.scheduler.Kill9()).To(Succeed())
		b.kills++
		b.live(ctx)
	case 1, 2:
		g := gangs[b.random.Intn(len(gangs))]
		i := b.random.Intn(g.size)
		b.env.deletePod(ctx, g.member(i))
		b.env.submitPods(ctx, g, i, i+1)
	case 3:
		resume := pauseControllers()
		pause(ctx, blowPause)
		resume()
	default:
		b.misorder()
	}
}

// clear deletes the gangs, their claims and all volumes.
func (b *breaker) clear(ctx context.Context, gangs []gang) {
	GinkgoHelper()
	for _, g := range gangs {
		b.env.deleteGang(ctx, g)
	}
	Expect(kube.CoreV1().PersistentVolumeClaims(b.env.name).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})).To(Succeed())
	Eventually(func() int { return len(b.env.claims(ctx)) }, controllersPatience).WithPolling(pollVolumes).Should(BeZero(), "claims")
	for _, v := range b.env.volumes(ctx) {
		Expect(ignoreGone(kube.CoreV1().PersistentVolumes().Delete(ctx, v.Name, metav1.DeleteOptions{}))).To(Succeed())
	}
	Eventually(func() int { return len(b.env.volumes(ctx)) }, controllersPatience).WithPolling(pollVolumes).Should(BeZero(), "volumes")
}

// ignoreGone returns nil for the error of an object that was deleted already.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func pause(ctx context.Context, length time.Duration) {
	select {
	case <-time.After(length):
	case <-ctx.Done():
	}
}
