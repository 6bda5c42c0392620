complete -o default -o bashdefault -C hotparam hotparam
