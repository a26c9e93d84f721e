package natstest

import (
	"slices"
	"time"
)

// Isolate cuts these members off from the others, not from each other and not from their clients, until Heal.
func (c *Cluster) Isolate(members ...int) {
	for _, i := range members {
		for j := range c.members {
			if !slices.Contains(members, j) {
				c.routes[i][j].Cut()
				c.routes[j][i].Cut()
			}
		}
	}
}

// Lag delivers whatever other members say to this one that much later, until Heal. What it says itself arrives at once.
// A delay beyond the members' Ping breaks the routes instead.
func (c *Cluster) Lag(member int, delay time.Duration) { c.impede(member, way{delay: delay}) }

// Withhold keeps what other members say to this one back, until Heal. Once they miss its answers they leave it and come
// again, in vain.
func (c *Cluster) Withhold(member int) { c.impede(member, way{held: true}) }

func (c *Cluster) impede(member int, w way) {
	for j := range c.members {
		if j != member {
			c.routes[j][member].impede(toServer, w)
			c.routes[member][j].impede(fromServer, w)
		}
	}
}

// Freeze lets a member's clients hear nothing from it and it nothing from them, until Thaw. Their connections stay, and
// new ones are taken.
func (c *Cluster) Freeze(member int) { c.members[member].clients.Hold() }

// Thaw ends Freeze: what was held back passes.
func (c *Cluster) Thaw(member int) { c.members[member].clients.Mend() }

// Heal ends Isolate, Lag and Withhold. Members find each other within about a second.
func (c *Cluster) Heal() {
	for i := range c.members {
		for j := range c.members {
			if i != j {
				c.routes[i][j].Mend()
			}
		}
	}
}
