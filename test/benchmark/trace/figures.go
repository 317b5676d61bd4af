// SPDX-License-Identifier: Apache-2.0

package main

// marks are the percentages of the cluster's GPUs at which, when tasks that ask for so much have arrived, it is looked how much is allocated. The last is the end.
var marks = [...]int{90, 95, 100, 130}

// atFull is the mark that the bar is for.
const atFull = 2

// figures are what is allocated at each mark, in percent of the cluster's GPUs.
type figures [len(marks)]float64

// progress follows a run.
type progress struct {
	total, arrived, allocated int
	figures                   figures
	next                      int
}

// note notes that a job has arrived, and whether it was placed.
func (p *progress) note(job []task, placed bool) {
	for _, t := range job {
		p.arrived += t.size()
		if placed {
			p.allocated += t.size()
		}
	}
	for p.next < atFull+1 && 100*p.arrived >= marks[p.next]*p.total {
		p.mark()
	}
}

func (p *progress) mark() {
	p.figures[p.next] = 100 * float64(p.allocated) / float64(p.total)
	p.next++
}

// end returns the figures when all has arrived.
func (p *progress) end() figures {
	for p.next < len(marks) {
		p.mark()
	}
	return p.figures
}

// mean is the mean of the runs' figures.
func mean(runs []figures) figures {
	var m figures
	for _, run := range runs {
		for i := range run {
			m[i] += run[i] / float64(len(runs))
		}
	}
	return m
}
