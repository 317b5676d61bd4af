// SPDX-License-Identifier: Apache-2.0

package main

import "fmt"

// pictures are the functions that draw the pictures of the pages, by the path of the file.
var pictures = map[string]func() *drawing{
	"docs/plugins/ibcluster.svg":    levelsPicture,
	"docs/pictures/gang.svg":        gangPicture,
	"docs/pictures/group.svg":       groupPicture,
	"docs/pictures/transaction.svg": transactionPicture,
	"docs/pictures/node-group.svg":  nodeGroupPicture,
	"docs/pictures/reservation.svg": reservationPicture,
}

// gangPicture draws a PodGroup with its pods, and the two possible outcomes: all pods are bound, or none is.
func gangPicture() *drawing {
	d := &drawing{width: 760, height: 270, title: "A gang", about: "A PodGroup with minMember 4 and four pods that name it. Either all four pods are bound to nodes, or none is."}
	d.frame("frame", 20, 20, 270, 230, "the gang train")
	d.rect("node", 40, 55, 230, 60)
	d.text("", 52, 79, "PodGroup train")
	d.text("dim", 52, 101, "minMember: 4")
	for i := range 4 {
		x := 40 + i*59
		d.box("pod", x, 170, 53, 40, fmt.Sprintf("-%d", i))
		d.line("line", x+26, 170, x+26, 116)
	}
	d.text("dim", 40, 235, "pods train-0 to train-3 name it")
	outcome := func(y int, title, class string, bound bool) {
		d.frame("frame", 360, y, 380, 105, title)
		for i := range 4 {
			x := 375 + i*90
			d.rect("node", x, y+32, 80, 60)
			d.text("dim", x+8, y+86, "node %d", i+1)
			if bound {
				d.box(class, x+10, y+40, 60, 28, fmt.Sprintf("train-%d", i))
			}
		}
	}
	outcome(20, "either all four are bound", "bound", true)
	outcome(145, "or none is, and nothing is reserved", "", false)
	d.arrow(290, 72, 358, 72)
	d.arrow(290, 197, 358, 197)
	return d
}

// groupPicture draws two gangs that are placed and bound together.
func groupPicture() *drawing {
	d := &drawing{width: 760, height: 250, title: "A gang group", about: "The gangs trainer and ps list each other in an annotation. Both are placed in one trial and bound in one transaction. If one does not fit, neither is bound."}
	d.frame("frame", 20, 20, 330, 210, "the group: each gang lists both")
	members := func(y int, title string, n int) {
		d.frame("node", 40, y, 290, 75, title)
		for i := range n {
			d.box("pod", 52+i*55, y+32, 46, 30, fmt.Sprintf("-%d", i))
		}
	}
	members(55, "gang trainer, minMember: 4", 4)
	members(143, "gang ps, minMember: 2", 2)
	d.arrow(350, 125, 393, 125)
	d.frame("step", 395, 70, 155, 110, "one trial,")
	d.text("bold", 405, 108, "one transaction")
	d.text("", 405, 138, "does each gang")
	d.text("", 405, 158, "reach its minimum?")
	d.arrow(550, 90, 598, 90)
	d.text("mid dim", 572, 80, "yes")
	d.box("bound", 600, 60, 140, 60, "both are bound")
	d.arrow(550, 160, 598, 160)
	d.text("mid dim", 572, 150, "no")
	d.box("other", 600, 130, 140, 60, "neither is bound")
	return d
}

// transactionPicture draws a bind transaction, from the session to the binds or to the rollback.
func transactionPicture() *drawing {
	d := &drawing{width: 760, height: 330, title: "A bind transaction", about: "The session places the members. Off the session loop, each member runs its pre-bind steps, in parallel with the other members. " +
		"At the barrier the members that passed are compared with the minimum. If they are enough they are bound, otherwise all steps are rolled back in reverse order."}
	d.frame("frame", 20, 50, 120, 140, "session")
	d.text("dim", 30, 102, "places all")
	d.text("dim", 30, 122, "members and")
	d.text("dim", 30, 142, "reserves their")
	d.text("dim", 30, 162, "resources")
	d.frame("frame", 180, 20, 560, 290, "transaction, off the session loop")
	for i := range 3 {
		y := 60 + i*54
		d.box("pod", 195, y, 70, 36, fmt.Sprintf("train-%d", i))
		d.arrow(265, y+18, 283, y+18)
		d.box("step", 285, y, 70, 36, "step 1")
		d.arrow(355, y+18, 373, y+18)
		d.box("step", 375, y, 70, 36, "step 2")
		d.arrow(445, y+18, 478, y+18)
	}
	d.arrow(140, 120, 178, 120)
	d.rect("node", 480, 55, 100, 155)
	d.text("mid bold", 530, 100, "barrier")
	d.text("mid", 530, 128, "minimum")
	d.text("mid", 530, 148, "reached?")
	d.arrow(580, 132, 628, 132)
	d.text("mid dim", 603, 122, "yes")
	d.rect("bound", 630, 92, 95, 80)
	d.text("mid", 677, 127, "bind in")
	d.text("mid", 677, 147, "parallel")
	d.line("line", 530, 210, 530, 262)
	d.text("dim", 540, 240, "no")
	d.arrow(530, 262, 447, 262)
	d.box("other", 375, 244, 70, 36, "undo 2")
	d.arrow(375, 262, 357, 262)
	d.box("other", 285, 244, 70, 36, "undo 1")
	d.arrow(285, 262, 267, 262)
	d.box("other", 195, 244, 70, 36, "retry")
	d.text("dim", 195, 300, "rollback in reverse order; then all resources are free")
	return d
}

// nodeGroupPicture draws three node groups, only one of them with enough free nodes for the gang.
func nodeGroupPicture() *drawing {
	d := &drawing{width: 760, height: 260, title: "Node groups", about: "Three InfiniBand clusters are node groups. A gang of four pods needs a whole node each. ib-a has two free nodes, ib-b has four and is chosen, ib-c has three. " +
		"The free nodes of two groups together do not count."}
	d.frame("frame", 20, 75, 120, 110, "gang")
	d.text("dim", 30, 120, "4 pods, each")
	d.text("dim", 30, 140, "needs 8 GPUs")
	d.arrow(140, 130, 178, 130)
	group := func(x int, class, name, free string, used int) {
		d.frame(class, x, 40, 170, 180, name)
		for i := range 6 {
			nx, ny := x+15+(i%2)*75, 70+(i/2)*38
			switch {
			case i < used:
				d.box("other", nx, ny, 66, 30, "in use")
			case class == "chosen":
				d.box("bound", nx, ny, 66, 30, fmt.Sprintf("train-%d", i-used))
			default:
				d.box("node", nx, ny, 66, 30, "free")
			}
		}
		d.text("dim", x+15, 207, "%s", free)
	}
	group(180, "frame", "ib-a", "2 of 4 fit", 4)
	group(370, "chosen", "ib-b", "4 of 4 fit: chosen", 2)
	group(560, "frame", "ib-c", "3 of 4 fit", 3)
	d.text("dim", 180, 244, "each frame is a node group: the nodes of one InfiniBand cluster")
	return d
}

// reservationPicture draws how nodes are drained for a gang that has waited long.
func reservationPicture() *drawing {
	d := &drawing{width: 760, height: 300, title: "A node reservation", about: "A gang waits while small pods fill each node that becomes free. After starvationAfter, nodes are reserved for it: pods there run to their end and no others are placed. " +
		"When all are free the gang is bound."}
	const left, reserved, placed, right = 90, 320, 560, 740
	nodes := []struct{ first, second, end int }{{180, 260, 430}, {140, 300, 390}, {230, 310, 560}, {170, 240, 350}}
	for i, n := range nodes {
		y := 60 + i*50
		d.text("", 20, y+24, "node %d", i+1)
		d.rect("node", left, y, right-left, 38)
		for _, span := range [][2]int{{left, n.first}, {n.first, n.second}, {n.second, n.end}} {
			d.box("other", span[0], y+4, span[1]-span[0]-2, 30, "pod")
		}
		d.box("bound", placed, y+4, right-placed-2, 30, fmt.Sprintf("train-%d", i))
	}
	d.line("line dash", reserved, 44, reserved, 265)
	d.line("line dash", placed, 44, placed, 265)
	d.text("mid dim", (left+reserved)/2, 36, "small pods run, the gang waits")
	d.text("mid dim", (reserved+placed)/2, 36, "reserved: nodes drain")
	d.text("mid dim", (placed+right)/2, 36, "the gang is bound")
	d.text("mid", reserved, 284, "starvationAfter")
	d.text("mid", placed, 284, "all nodes drained")
	d.arrow(left, 265, right, 265)
	return d
}

// levelsPicture draws the groups that the labels of nodes form at three levels, and nodes that lack some of the labels.
func levelsPicture() *drawing {
	d := &drawing{width: 760, height: 380, title: "How clusters, spines and leaves are read from labels", about: "The labels ibcluster, spine and leaf of a node name its group at three levels, each inside the level before. " +
		"A node that lacks a label is in the wider groups only. A node without the first label is in no group."}
	const cluster, spine, leaf = "pod", "chosen", "step"
	d.frame("frame", 20, 20, 180, 138, "labels of node a1")
	d.box(cluster, 30, 50, 160, 28, "ibcluster: ib-a")
	d.box(spine, 30, 84, 160, 28, "spine: s1")
	d.box(leaf, 30, 118, 160, 28, "leaf: l1")
	d.frame("frame", 20, 170, 180, 100, "groups of node a1")
	for i, path := range []string{"ib-a", "ib-a/s1", "ib-a/s1/l1"} {
		d.text("", 30, 213+i*21, "%s", path)
	}
	group := func(class string, x, y, w, h int, name string, nodes ...string) {
		d.frame(class, x, y, w, h, name)
		for i, node := range nodes {
			style := "node"
			if node == "a1" {
				style = "bound"
			}
			d.box(style, x+8, y+30+i*40, w-16, 32, node)
		}
	}
	group(cluster, 215, 20, 315, 250, "ib-a")
	group(spine, 225, 50, 190, 210, "s1")
	group(leaf, 235, 82, 80, 168, "l1", "a1", "a2")
	group(leaf, 325, 82, 80, 168, "l2", "a3", "a4", "a5")
	group(spine, 425, 50, 95, 210, "s2")
	group(leaf, 433, 82, 79, 72, "l3", "a6")
	d.box("node", 441, 184, 63, 32, "a7")
	group(cluster, 545, 20, 195, 250, "ib-b")
	group(spine, 555, 50, 95, 210, "s1")
	group(leaf, 563, 82, 79, 168, "l1", "b1", "b2")
	d.box("node", 660, 112, 70, 32, "b3")
	d.box("node", 660, 290, 70, 32, "x")
	d.text("dim", 20, 302, "a7 has no label leaf: it is in ib-a and ib-a/s2 only.")
	d.text("dim", 20, 322, "b3 has no label spine: it is in ib-b only, and its label leaf does not count.")
	d.text("dim", 20, 342, "x has no label ibcluster: it is in no group, and takes no gang of mode required.")
	d.text("dim", 20, 362, "ib-a/s1 and ib-b/s1 are different groups.")
	return d
}
