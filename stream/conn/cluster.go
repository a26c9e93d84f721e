package conn

// Clustered says whether the servers are members of a cluster: what one of them answers may be behind what the others
// have agreed on. Once it was one it stays one, also while there is no connection.
func (c *Client) Clustered() bool {
	if c.nc.ConnectedClusterName() != "" {
		c.clustered.Store(true)
	}
	return c.clustered.Load()
}
