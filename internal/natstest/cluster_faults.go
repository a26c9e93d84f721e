package natstest

import (
	"slices"
	"time"
)

// Isolate cuts these members off from the other members, until Heal. They can still reach each other and their
// clients.
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

// Lag delays data from other members to this one, until Heal. Its own data is not delayed. A delay longer than the
// members' Ping breaks the routes instead.
func (c *Cluster) Lag(member int, delay time.Duration) {
	c.setImpairment(member, impairment{delay: delay})
}

// Withhold holds back data from other members to this one, until Heal. When they miss its pings they disconnect and
// reconnect, without effect.
func (c *Cluster) Withhold(member int) { c.setImpairment(member, impairment{hold: true}) }

func (c *Cluster) setImpairment(member int, w impairment) {
	for j := range c.members {
		if j != member {
			c.routes[j][member].setImpairment(toServer, w)
			c.routes[member][j].setImpairment(fromServer, w)
		}
	}
}

// Freeze holds back all data between a member and its clients, until Thaw. Their connections stay open, and new ones
// are accepted.
func (c *Cluster) Freeze(member int) { c.members[member].clients.Hold() }

// Thaw ends Freeze and delivers the data that was held back.
func (c *Cluster) Thaw(member int) { c.members[member].clients.Restore() }

// Heal ends Isolate, Lag and Withhold. Members reconnect within about a second.
func (c *Cluster) Heal() {
	for i := range c.members {
		for j := range c.members {
			if i != j {
				c.routes[i][j].Restore()
			}
		}
	}
}
