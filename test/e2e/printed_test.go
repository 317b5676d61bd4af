// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
)

// shell runs printed commands in the repository's folder, against one control plane.
type shell struct{ kubeconfig string }

// run runs the command and returns its output. Pages write kubectl for the one in bin/, which few machines have on
// their PATH.
func (s shell) run(ctx context.Context, command string) string {
	GinkgoHelper()
	GinkgoWriter.Println("$", command)
	cmd := exec.CommandContext(ctx, "bash", "-c", command)
	cmd.Dir = filepath.Dir(binaries)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.kubeconfig, "PATH="+binaries+":"+os.Getenv("PATH"))
	output, err := cmd.CombinedOutput()
	GinkgoWriter.Println(string(output))
	Expect(err).NotTo(HaveOccurred(), "%s\n%s", command, output)
	Expect(string(output)).NotTo(ContainSubstring("No resources found"), command)
	return string(output)
}

var (
	fence = regexp.MustCompile("(?ms)^```[a-z]*\n(.*?)^```")
	// printed matches a command on a line of its own, with its continuation lines.
	printed = regexp.MustCompile(`(?m)^ *((?:bin/)?(?:kubectl|helm) (?:[^\n]*\\\n)*[^\n#]*)`)
)

// commandsIn returns the commands on lines of their own in the text.
func commandsIn(text string) (commands []string) {
	for _, match := range printed.FindAllStringSubmatch(text, -1) {
		commands = append(commands, strings.TrimSpace(match[1]))
	}
	return commands
}

// commandsOn returns the commands in the code blocks of the pages.
func commandsOn(patterns ...string) (commands []string) {
	GinkgoHelper()
	for _, pattern := range patterns {
		pages, err := filepath.Glob(filepath.Join(filepath.Dir(binaries), pattern))
		Expect(err).NotTo(HaveOccurred())
		Expect(pages).NotTo(BeEmpty(), pattern)
		for _, page := range pages {
			text, err := os.ReadFile(page)
			Expect(err).NotTo(HaveOccurred())
			for _, block := range fence.FindAllStringSubmatch(string(text), -1) {
				commands = append(commands, commandsIn(block[1])...)
			}
		}
	}
	return commands
}

// installs reports whether the command installs or removes this build.
func installs(command string) bool {
	return strings.Contains(command, "helm ") || strings.Contains(command, "config/crd")
}

var _ = Describe("A printed command", func() {
	It("works in the sandbox", func(ctx SpecContext) {
		out, info := gbytes.NewBuffer(), gbytes.NewBuffer()
		sandbox := exec.Command(filepath.Join(binaries, "vc-sandbox"), "up", "--dir", GinkgoT().TempDir())
		sandbox.Stdout, sandbox.Stderr = out, info
		sandbox.Dir = filepath.Dir(binaries)
		Expect(sandbox.Start()).To(Succeed())
		DeferCleanup(func() {
			Expect(sandbox.Process.Signal(syscall.SIGINT)).To(Succeed())
			Expect(sandbox.Wait()).To(Succeed(), "%s", info.Contents())
		})
		Eventually(info, controllersPatience).Should(gbytes.Say("End it with"))
		sh := shell{strings.TrimSpace(strings.TrimPrefix(string(out.Contents()), "export KUBECONFIG="))}

		hints := commandsIn(string(info.Contents()))
		Expect(len(hints)).To(BeNumerically(">=", 7), "the hints: %v", hints)
		for _, command := range hints {
			if strings.Contains(command, " describe ") { // "... and this says why"
				Eventually(func() string { return sh.run(ctx, command) }).WithPolling(time.Second).Should(ContainSubstring("quarantine"))
				continue
			}
			sh.run(ctx, command)
		}
		Eventually(func() string {
			return sh.run(ctx, "kubectl get pods -l app=train -o jsonpath='{.items[*].status.phase}'")
		}).WithPolling(time.Second).Should(Equal("Running Running Running Running"), "the gang of the hints, once its node is in order")

		sh.run(ctx, "sed 's/: train/: train-a/' config/samples/gang.yaml | kubectl apply -f -") // The pages use this gang.
		pages := slices.DeleteFunc(commandsOn("*.md", "docs/*.md", "docs/*/*.md"), installs)
		Expect(len(pages)).To(BeNumerically(">=", 8), "the commands of pages: %v", pages)
		for _, command := range pages {
			sh.run(ctx, command)
		}
	})

	It("installs, upgrades and removes this build", func(ctx SpecContext) {
		empty, err := controlplane.Start(ctx, controlplane.Options{BinDir: binaries, Progress: GinkgoWriter})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() error { return empty.Stop() })
		sh := shell{empty.Kubeconfig()}
		commands := slices.DeleteFunc(commandsOn("docs/install.md"), func(c string) bool { return !installs(c) })
		Expect(commands).To(HaveLen(5), "%v", commands)
		Expect(commandsOn("README.md")).To(ContainElement(commands[0]), "one page installs otherwise than the other")
		for i, command := range commands {
			output := sh.run(ctx, command)
			if i > 0 {
				continue
			}
			notes := commandsIn(output)
			Expect(len(notes)).To(BeNumerically(">=", 2), output)
			for _, command := range notes {
				Eventually(func() error { // The controllers create the pods.
					return InterceptGomegaFailure(func() { sh.run(ctx, command) })
				}).WithPolling(time.Second).Should(Succeed())
			}
		}
	})
})
