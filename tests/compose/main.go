// Reads a compose file with the library of docker compose, which refuses unknown keys, wrong types and unknown names. Then checks that
// the sidecar is as restricted as its image promises. Usage: compose FILE.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

var faults int

func want(good bool, what string) {
	if !good {
		fmt.Printf("%s:1: queue-sidecar: %s\n", os.Args[1], what)
		faults++
	}
}

func sidecar(service types.ServiceConfig, directory string) {
	want(service.ReadOnly, "the root is not read-only")
	want(slices.Equal(service.CapDrop, []string{"ALL"}) && len(service.CapAdd) == 0, "the container has capabilities")
	want(slices.Contains(service.SecurityOpt, "no-new-privileges:true"), "the container may gain privileges")
	want(service.User == "65532:65532", "the container does not run as 65532:65532")
	want(!service.Privileged && service.NetworkMode == "" && service.Pid == "" && service.Ipc == "", "the container is privileged or shares a namespace with the host")
	want(service.MemLimit > 0 && service.PidsLimit > 0, "mem_limit or pids_limit is missing")
	want(service.Restart == "unless-stopped", "restart is not unless-stopped")
	want(len(service.Ports) == 0, "the container publishes a port")
	want(service.HealthCheck != nil && slices.Equal(service.HealthCheck.Test, []string{"CMD", "/usr/bin/queue-sidecar", "healthcheck"}),
		"the health check is not `queue-sidecar healthcheck`")
	mounts := map[string]types.ServiceVolumeConfig{}
	for _, volume := range service.Volumes {
		mounts[volume.Target] = volume
	}
	config := mounts["/etc/queue-sidecar"]
	found, err := os.Stat(config.Source)
	want(config.Type == "bind" && config.ReadOnly && err == nil && found.IsDir(), "the config is not a directory, mounted read-only")
	want(filepath.Dir(config.Source) == directory, "the config is not beside the compose file")
	want(mounts["/var/lib/queue-sidecar"].Type == "volume", "the audit log is not in a volume")
	want(len(mounts) == 2, "the container mounts more than the config and the audit log")
}

func main() {
	path, _ := filepath.Abs(os.Args[1])
	options, err := cli.NewProjectOptions([]string{path})
	if err == nil {
		var project *types.Project
		project, err = options.LoadProject(context.Background())
		if err == nil {
			service, missing := project.GetService("queue-sidecar")
			want(missing == nil, "there is no such service")
			sidecar(service, filepath.Dir(path))
		}
	}
	if err != nil {
		fmt.Printf("%s:1: %v\n", os.Args[1], err)
		faults++
	}
	if faults > 0 {
		os.Exit(1)
	}
}
