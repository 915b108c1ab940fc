from restviz.cli import main

raise SystemExit(main())
